//go:build tools

// Package tools names the commands that the local control plane builds from this module.
package tools

import _ "github.com/distribution/distribution/v3/cmd/registry"

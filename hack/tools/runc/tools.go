//go:build tools

// Package tools names the commands that the real node of the local control plane builds from this module.
package tools

import _ "github.com/opencontainers/runc"

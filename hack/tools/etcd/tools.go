//go:build tools

// Package tools names the commands that the local control plane builds from this module.
package tools

import _ "go.etcd.io/etcd/server/v3"

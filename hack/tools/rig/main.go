//go:build linux

// Rig does for the local control plane what shell cannot do without further packages: certificates, free ports that stay
// ours, the devices of a new network namespace, forwarding between two namespaces, asking a part for its health, and the image
// that Pods of a real node wait in.
//
// It uses the standard library alone and keeps no state.
package main

import (
	"fmt"
	"os"
)

const usage = `usage:
  rig certs DIR SERVICE_ADDRESS [NODE ADDRESS]
                                           write a CA, certificates and keys below DIR
  rig ports [--hold LIST] NAME... -- CMD   run CMD with a free port of 127.0.0.1 in PORT_<NAME> for each name;
                                           those in the comma separated LIST stay open as file FD_<NAME>
  rig loopback CIDR                        bring lo up and route CIDR to it
  rig node-network ADDRESS/PREFIX CIDR     furnish a network namespace for a node; CIDR is the range of Services
  rig pause                                wait for the end of a Pod: what runs in the sandbox of each
  rig push-pause REGISTRY/REPOSITORY:TAG   put an image of this program, which pauses, into a registry of plain HTTP
  rig forward FD=ADDRESS...                accept on each open file and connect through to the address
  rig healthy [--wait SECONDS] URL         exit 0 if URL answers 200 (certificates are not checked)
`

func main() {
	commands := map[string]func([]string) error{
		"certs":        certs,
		"ports":        ports,
		"loopback":     loopback,
		"node-network": nodeNetwork,
		"pause":        pause,
		"push-pause":   pushPause,
		"forward":      forward,
		"healthy":      healthy,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "rig %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

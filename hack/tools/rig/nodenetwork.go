//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// nodeDevice bears the node's address. It is a bridge without ports, the one kind of device that needs no counterpart and that
// every kernel for containers has.
const nodeDevice = "node0"

// Values of linux/if_link.h that package syscall lacks.
const (
	linkInfo     = 18
	linkInfoKind = 1
)

// nodeNetwork furnishes a new network namespace for a node: lo, a device with the node's address, a route for the Service range
// (without one, what is sent to a Service is refused before kube-proxy's rules can redirect it), and forwarding between Pods.
func nodeNetwork(args []string) error {
	if len(args) != 2 {
		return errors.New("expected ADDRESS/PREFIX SERVICE_CIDR")
	}
	address, network, err := net.ParseCIDR(args[0])
	if err != nil {
		return err
	}
	_, services, err := net.ParseCIDR(args[1])
	if err != nil {
		return err
	}
	if address.To4() == nil || services.IP.To4() == nil {
		return errors.New("expected IPv4 addresses")
	}
	if err := bringUp("lo"); err != nil {
		return err
	}
	if err := request(syscall.RTM_NEWLINK, syscall.NLM_F_CREATE|syscall.NLM_F_EXCL, newLink(nodeDevice, "bridge")); err != nil {
		return fmt.Errorf("cannot make device %s: %w", nodeDevice, err)
	}
	device, err := net.InterfaceByName(nodeDevice)
	if err != nil {
		return err
	}
	prefix, _ := network.Mask.Size()
	if err := request(syscall.RTM_NEWADDR, syscall.NLM_F_CREATE, newAddress(address.To4(), byte(prefix), device.Index)); err != nil {
		return fmt.Errorf("cannot give %s address %s: %w", nodeDevice, args[0], err)
	}
	if err := bringUp(nodeDevice); err != nil {
		return err
	}
	prefix, _ = services.Mask.Size()
	route := route(syscall.RT_TABLE_MAIN, syscall.RTN_UNICAST, services.IP.To4(), byte(prefix), device.Index)
	if err := request(syscall.RTM_NEWROUTE, syscall.NLM_F_CREATE|syscall.NLM_F_REPLACE, route); err != nil {
		return fmt.Errorf("cannot route %s to %s: %w", services, nodeDevice, err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

func bringUp(name string) error {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	if err := request(syscall.RTM_NEWLINK, 0, linkUp(device.Index)); err != nil {
		return fmt.Errorf("cannot bring %s up: %w", name, err)
	}
	return nil
}

// newLink is a struct ifinfomsg with a name and a kind.
func newLink(name, kind string) []byte {
	message := make([]byte, ifInfoSize)
	message = append(message, attribute(syscall.IFLA_IFNAME, append([]byte(name), 0))...)
	return append(message, attribute(linkInfo, attribute(linkInfoKind, append([]byte(kind), 0)))...)
}

// newAddress is a struct ifaddrmsg.
func newAddress(address net.IP, prefix byte, index int) []byte {
	message := []byte{syscall.AF_INET, prefix, 0, 0}
	message = binary.NativeEndian.AppendUint32(message, uint32(index))
	message = append(message, attribute(syscall.IFA_LOCAL, address)...)
	return append(message, attribute(syscall.IFA_ADDRESS, address)...)
}

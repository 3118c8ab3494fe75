//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Values of linux/rtnetlink.h that package syscall lacks.
const (
	routeAttributeHeader = 4
	ifInfoSize           = 16
)

// loopback does what `ip link set lo up; ip route add local CIDR dev lo` does: every address of the range is then ours.
func loopback(args []string) error {
	if len(args) != 1 {
		return errors.New("expected CIDR")
	}
	_, network, err := net.ParseCIDR(args[0])
	if err != nil {
		return err
	}
	destination := network.IP.To4()
	if destination == nil {
		return fmt.Errorf("not an IPv4 range: %s", args[0])
	}
	if err := bringUp("lo"); err != nil {
		return err
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	ones, _ := network.Mask.Size()
	route := route(syscall.RT_TABLE_LOCAL, syscall.RTN_LOCAL, destination, byte(ones), lo.Index)
	if err := request(syscall.RTM_NEWROUTE, syscall.NLM_F_CREATE|syscall.NLM_F_REPLACE, route); err != nil {
		return fmt.Errorf("cannot route %s to lo: %w", network, err)
	}
	return nil
}

// linkUp is a struct ifinfomsg that sets one flag.
func linkUp(index int) []byte {
	message := make([]byte, ifInfoSize)
	message[0] = syscall.AF_UNSPEC
	binary.NativeEndian.PutUint32(message[4:], uint32(index))
	binary.NativeEndian.PutUint32(message[8:], syscall.IFF_UP)
	binary.NativeEndian.PutUint32(message[12:], syscall.IFF_UP)
	return message
}

// route is a struct rtmsg with a destination and a device.
func route(table, kind byte, destination net.IP, prefix byte, index int) []byte {
	scope := byte(syscall.RT_SCOPE_LINK)
	if kind == syscall.RTN_LOCAL {
		scope = syscall.RT_SCOPE_HOST
	}
	message := []byte{syscall.AF_INET, prefix, 0, 0, table, syscall.RTPROT_BOOT, scope, kind, 0, 0, 0, 0}
	message = append(message, attribute(syscall.RTA_DST, destination)...)
	device := make([]byte, 4)
	binary.NativeEndian.PutUint32(device, uint32(index))
	return append(message, attribute(syscall.RTA_OIF, device)...)
}

// attribute is a struct rtattr, padded to a multiple of four bytes.
func attribute(kind uint16, value []byte) []byte {
	message := make([]byte, routeAttributeHeader)
	binary.NativeEndian.PutUint16(message, uint16(routeAttributeHeader+len(value)))
	binary.NativeEndian.PutUint16(message[2:], kind)
	message = append(message, value...)
	for len(message)%routeAttributeHeader != 0 {
		message = append(message, 0)
	}
	return message
}

// request sends one netlink message and waits for the kernel's verdict on it.
func request(kind, flags uint16, body []byte) error {
	socket, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	message := make([]byte, syscall.NLMSG_HDRLEN, syscall.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(message, uint32(syscall.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(message[4:], kind)
	binary.NativeEndian.PutUint16(message[6:], flags|syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	message = append(message, body...)
	if err := syscall.Sendto(socket, message, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, syscall.Getpagesize())
	length, _, err := syscall.Recvfrom(socket, answer, 0)
	if err != nil {
		return err
	}
	if length < syscall.NLMSG_HDRLEN+4 {
		return errors.New("the kernel's answer is too short")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[syscall.NLMSG_HDRLEN:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}

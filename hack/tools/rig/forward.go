//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
)

// forward joins two network namespaces: a socket belongs to the namespace in which it was made, so files that were opened
// outside accept there, while this process connects from where it runs.
func forward(args []string) error {
	if len(args) == 0 {
		return errors.New("expected FD=ADDRESS...")
	}
	failed := make(chan error)
	for _, arg := range args {
		number, address, found := strings.Cut(arg, "=")
		fd, err := strconv.ParseUint(number, 10, 16)
		if !found || err != nil {
			return fmt.Errorf("expected FD=ADDRESS, not %q", arg)
		}
		listener, err := net.FileListener(os.NewFile(uintptr(fd), arg))
		if err != nil {
			return fmt.Errorf("file %d is not a listening socket: %w", fd, err)
		}
		go func() { failed <- accept(listener, address) }()
	}
	return <-failed
}

func accept(listener net.Listener, address string) error {
	for {
		outer, err := listener.Accept()
		if err != nil {
			return err
		}
		go join(outer, address)
	}
}

// join copies both ways until both sides are done. A refused connection closes the outer one, which is what the client of a
// part that is down should see.
func join(outer net.Conn, address string) {
	defer outer.Close()
	inner, err := net.Dial("tcp4", address)
	if err != nil {
		return
	}
	defer inner.Close()
	done := make(chan struct{}, 2)
	go pump(inner, outer, done)
	go pump(outer, inner, done)
	<-done
	<-done
}

// pump copies one direction and passes the end of the stream on. A connection that broke ends the other direction too.
func pump(to, from net.Conn, done chan<- struct{}) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
	} else if half, ok := to.(*net.TCPConn); ok {
		half.CloseWrite()
	}
	done <- struct{}{}
}

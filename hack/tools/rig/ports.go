//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// Held files are numbered from here on, out of the way of the descriptors that shells use.
const firstHeldFile = 60

// ports finds a free port of 127.0.0.1 for each name and becomes the command after `--`. All are bound at the same time, so
// no two are equal. A held one never becomes free; the others do just before the command runs, and somebody may be faster.
func ports(args []string) error {
	var held []string
	if len(args) > 1 && args[0] == "--hold" {
		held, args = strings.Split(args[1], ","), args[2:]
	}
	separator := slices.Index(args, "--")
	if separator < 0 || separator == len(args)-1 {
		return errors.New("expected NAME... -- CMD")
	}
	names, command := args[:separator], args[separator+1:]
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	environment := os.Environ()
	for _, name := range names {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("cannot find a free port for %s: %w", name, err)
		}
		variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		environment = append(environment, fmt.Sprintf("PORT_%s=%d", variable, listener.Addr().(*net.TCPAddr).Port))
		if slices.Contains(held, name) {
			fd, err := keepAcrossExec(listener.(*net.TCPListener))
			if err != nil {
				return fmt.Errorf("cannot hold the port of %s: %w", name, err)
			}
			environment = append(environment, fmt.Sprintf("FD_%s=%d", variable, fd))
		}
	}
	// The Go runtime opens everything else close-on-exec: what is not held is closed here.
	return syscall.Exec(program, command, environment)
}

func keepAcrossExec(listener *net.TCPListener) (uintptr, error) {
	file, err := listener.File()
	if err != nil {
		return 0, err
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), syscall.F_DUPFD, firstHeldFile)
	if errno != 0 {
		return 0, errno
	}
	return fd, nil
}

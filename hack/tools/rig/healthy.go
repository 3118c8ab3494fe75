//go:build linux

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// A part that does not answer within this time is not healthy.
	answerTimeout = 2 * time.Second
	askAgainAfter = 50 * time.Millisecond
)

// healthy asks a URL until it answers 200, for as long as `--wait` says (default: once).
func healthy(args []string) error {
	wait := time.Duration(0)
	if len(args) == 3 && args[0] == "--wait" {
		seconds, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		wait, args = time.Duration(seconds)*time.Second, args[2:]
	}
	if len(args) != 1 {
		return errors.New("expected [--wait SECONDS] URL")
	}
	client := &http.Client{
		Timeout: answerTimeout,
		// The question goes to 127.0.0.1 and carries nothing secret; some parts sign their own certificates.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	deadline := time.Now().Add(wait)
	for {
		err := ask(client, args[0])
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(askAgainAfter)
	}
}

func ask(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, response.Status)
	}
	return nil
}

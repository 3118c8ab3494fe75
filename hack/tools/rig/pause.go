//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	programInImage = "/rig"
	manifestType   = "application/vnd.oci.image.manifest.v1+json"
	configType     = "application/vnd.oci.image.config.v1+json"
	layerType      = "application/vnd.oci.image.layer.v1.tar"
	pushTimeout    = time.Minute
)

// pause holds a Pod's namespaces until it is told to end, and buries the processes that nobody else waits for.
func pause([]string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			break
		}
		for {
			child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if child <= 0 || err != nil {
				break
			}
		}
	}
	return nil
}

// descriptor names a blob in a manifest.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// pushPause uploads an image whose one file is this program.
func pushPause(args []string) error {
	if len(args) != 1 {
		return errors.New("expected REGISTRY/REPOSITORY:TAG")
	}
	registry, rest, _ := strings.Cut(args[0], "/")
	repository, tag, found := strings.Cut(rest, ":")
	if !found {
		return fmt.Errorf("expected REGISTRY/REPOSITORY:TAG, not %s", args[0])
	}
	layer, err := layerOfThisProgram()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": runtime.GOOS,
		"config": map[string]any{"Entrypoint": []string{programInImage, "pause"}, "User": "65535:65535"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": describe(configType, config), "layers": []descriptor{describe(layerType, layer)},
	})
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: pushTimeout}
	base := fmt.Sprintf("http://%s/v2/%s/", registry, repository)
	return errors.Join(
		pushBlob(client, base, config),
		pushBlob(client, base, layer),
		send(client, http.MethodPut, base+"manifests/"+tag, manifestType, manifest, nil),
	)
}

func layerOfThisProgram() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	header := &tar.Header{Name: strings.TrimPrefix(programInImage, "/"), Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}
	if err := archive.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := archive.Write(program); err != nil {
		return nil, err
	}
	err = archive.Close()
	return layer.Bytes(), err
}

func describe(mediaType string, content []byte) descriptor {
	return descriptor{mediaType, digest(content), len(content)}
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func pushBlob(client *http.Client, base string, content []byte) error {
	var location string
	if err := send(client, http.MethodPost, base+"blobs/uploads/", "", nil, &location); err != nil {
		return err
	}
	separator := "?"
	if strings.Contains(location, "?") {
		separator = "&"
	}
	return send(client, http.MethodPut, location+separator+"digest="+digest(content), "application/octet-stream", content, nil)
}

// send makes a request that must succeed; where location is given, the answer's goes there.
func send(client *http.Client, method, url, contentType string, content []byte, location *string) error {
	request, err := http.NewRequest(method, url, bytes.NewReader(content))
	if err != nil {
		return err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		return fmt.Errorf("%s %s: %s: %s", method, url, response.Status, text)
	}
	if location != nil {
		*location = response.Header.Get("Location")
	}
	return nil
}

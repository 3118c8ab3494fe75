//go:build linux

package main

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestCertificatesAreSignedByTheAuthorityOfTheirCluster(t *testing.T) {
	dir := t.TempDir()
	if err := certs([]string{dir, "10.96.0.1"}); err != nil {
		t.Fatal(err)
	}
	for file, authority := range map[string]string{
		"kube-apiserver": "ca", "admin": "ca", "kube-controller-manager": "ca", "kube-scheduler": "ca", "kwok": "ca",
		"front-proxy-client": "front-proxy-ca",
	} {
		roots := x509.NewCertPool()
		roots.AddCert(certificate(t, dir, authority))
		options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if _, err := certificate(t, dir, file).Verify(options); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, name := range []string{"127.0.0.1", "10.96.0.1", "localhost", "kubernetes.default.svc"} {
		if err := certificate(t, dir, "kube-apiserver").VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestCertificatesNeedAnAddress(t *testing.T) {
	if err := certs([]string{t.TempDir(), "kubernetes"}); err == nil {
		t.Error("a name was taken for an address")
	}
}

func TestForwardPassesBothDirectionsAndTheEndOfEach(t *testing.T) {
	outer, inner := listen(t), listen(t)
	file, err := outer.File()
	if err != nil {
		t.Fatal(err)
	}
	go forward([]string{strconv.Itoa(int(file.Fd())) + "=" + inner.Addr().String()})
	go func() {
		server, err := inner.Accept()
		if err != nil {
			return
		}
		defer server.Close()
		question, _ := io.ReadAll(server)
		server.Write(append([]byte("you said: "), question...))
	}()
	client, err := net.Dial("tcp4", outer.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client.Write([]byte("hello"))
	client.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(client)
	if err != nil || string(answer) != "you said: hello" {
		t.Errorf("got %q, %v", answer, err)
	}
}

func TestForwardClosesWhatLeadsNowhere(t *testing.T) {
	outer, gone := listen(t), listen(t)
	gone.Close()
	go accept(outer, gone.Addr().String())
	client, err := net.Dial("tcp4", outer.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(client); len(answer) != 0 {
		t.Errorf("got %q", answer)
	}
}

func TestForwardRefusesWhatIsNoSocket(t *testing.T) {
	for _, arg := range []string{"", "x=127.0.0.1:1", "65000=127.0.0.1:1"} {
		if err := forward([]string{arg}); err == nil {
			t.Errorf("%q was accepted", arg)
		}
	}
}

func TestLoopbackRefusesWhatIsNoRange(t *testing.T) {
	for _, arg := range []string{"", "10.96.0.0", "fd00::/64"} {
		if err := loopback([]string{arg}); err == nil {
			t.Errorf("%q was accepted", arg)
		}
	}
}

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.(*net.TCPListener)
}

func certificate(t *testing.T, dir, file string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, file+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestARealNodeHasCertificatesOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	if err := certs([]string{dir, "10.96.0.1", "local", "10.97.0.2"}); err != nil {
		t.Fatal(err)
	}
	for file, name := range map[string]string{"kubelet": "10.97.0.2", "registry": registryName, "kube-apiserver": "10.97.0.2"} {
		if err := certificate(t, dir, file).VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if got := certificate(t, dir, "kubelet").Subject.String(); got != "CN=system:node:local,O=system:nodes" {
		t.Error(got)
	}
}

func TestAttributesArePadded(t *testing.T) {
	if got := len(attribute(1, []byte("node0\x00"))); got != 12 {
		t.Errorf("%d bytes", got)
	}
	if got := attribute(1, []byte("node0\x00"))[0]; got != 10 {
		t.Errorf("length %d", got)
	}
}

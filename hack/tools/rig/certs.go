//go:build linux

package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// A cluster of this kind lives for hours; a year covers one that was kept.
const lifetime = 365 * 24 * time.Hour

// Clocks of a virtual machine that was asleep may be a little behind.
const clockSkew = time.Hour

// authority signs the certificates of one cluster. Its key stays in memory.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// registryName is by which Pods reach the registry.
const registryName = "registry.kube-system.svc"

// certs writes what the parts of a control plane need to know each other: PEM files below args[0].
// args[1] is the first address of the Service range, where the API server calls itself `kubernetes`; args[2] and args[3], if there
// is a real node, are its name and address.
func certs(args []string) error {
	if len(args) != 2 && len(args) != 4 {
		return errors.New("expected DIR SERVICE_ADDRESS [NODE NODE_ADDRESS]")
	}
	dir, addresses := args[0], []net.IP{net.IPv4(127, 0, 0, 1)}
	for i := 1; i < len(args); i += 2 {
		address := net.ParseIP(args[i])
		if address == nil {
			return errors.New("not an IP address: " + args[i])
		}
		addresses = append(addresses, address)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	cluster, err := newAuthority(dir, "ca", "oxolm-local-ca")
	if err != nil {
		return err
	}
	proxy, err := newAuthority(dir, "front-proxy-ca", "oxolm-local-front-proxy-ca")
	if err != nil {
		return err
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if len(args) == 4 {
		if err := nodeCerts(cluster, dir, args[2], addresses); err != nil {
			return err
		}
	}
	return errors.Join(
		cluster.issue(dir, "kube-apiserver", pkix.Name{CommonName: "kube-apiserver"}, names, addresses...),
		cluster.issue(dir, "admin", pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, nil),
		cluster.issue(dir, "kube-controller-manager", pkix.Name{CommonName: "system:kube-controller-manager"}, nil),
		cluster.issue(dir, "kube-scheduler", pkix.Name{CommonName: "system:kube-scheduler"}, nil),
		cluster.issue(dir, "kwok", pkix.Name{CommonName: "kwok", Organization: []string{"system:masters"}}, nil),
		proxy.issue(dir, "front-proxy-client", pkix.Name{CommonName: "front-proxy-client"}, nil),
		serviceAccountKey(dir),
	)
}

// nodeCerts writes what a real node needs, too; its address is the last one.
func nodeCerts(cluster *authority, dir, node string, addresses []net.IP) error {
	masters := []string{"system:masters"}
	kubelet := pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
	registry := []string{registryName, registryName + ".cluster.local", "localhost"}
	return errors.Join(
		cluster.issue(dir, "kubelet", kubelet, []string{node}, addresses[len(addresses)-1]),
		cluster.issue(dir, "kube-apiserver-kubelet-client", pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: masters}, nil),
		cluster.issue(dir, "kube-proxy", pkix.Name{CommonName: "system:kube-proxy"}, nil),
		cluster.issue(dir, "coredns", pkix.Name{CommonName: "coredns", Organization: masters}, nil),
		cluster.issue(dir, "registry", pkix.Name{CommonName: "registry"}, registry, addresses...),
	)
}

func newAuthority(dir, file, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-clockSkew),
		NotAfter:              time.Now().Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate, key}, writePEM(filepath.Join(dir, file+".crt"), "CERTIFICATE", der)
}

// issue writes file.crt and file.key for one subject, good for clients and, where it has names or addresses, for servers.
func (a *authority) issue(dir, file string, subject pkix.Name, names []string, addresses ...net.IP) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-clockSkew),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:     names,
		IPAddresses:  addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(filepath.Join(dir, file+".crt"), "CERTIFICATE", der),
		writeKey(filepath.Join(dir, file+".key"), key),
	)
}

// serviceAccountKey writes the pair that signs and checks the tokens of service accounts.
func serviceAccountKey(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return errors.Join(
		writeKey(filepath.Join(dir, "service-account.key"), key),
		writePEM(filepath.Join(dir, "service-account.pub"), "PUBLIC KEY", public),
	)
}

func writeKey(path string, key any) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark/tidemark/local/realpart"
)

// The login of the brokers' listeners. It is good for nothing else.
const (
	user     = "reader"
	password = "e2e-right-password" //nolint:gosec // of a broker that lives for minutes on loopback
)

// keyring is what the listeners and their clients sign in with. Certificates are made anew for each run.
type keyring struct {
	dir    string
	ca     string // PEM
	server string // PEM, certificate and key
}

func newKeyring(dir string) (*keyring, error) {
	k := &keyring{dir: dir}
	ours, err := newAuthority("Tidemark e2e")
	if err != nil {
		return nil, err
	}
	others, err := newAuthority("somebody else")
	if err != nil {
		return nil, err
	}
	k.ca = ours.pem
	files := map[string]string{"ca": ours.pem, "other-ca": others.pem}
	for name, by := range map[string]*authority{"server": ours, "client": ours, "stranger": others} {
		cert, key, err := by.sign(name)
		if err != nil {
			return nil, err
		}
		files[name], files[name+"-key"] = cert, key
	}
	k.server = files["server"]
	for name, text := range files {
		if err := os.WriteFile(k.path(name), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("writing a certificate: %w", err)
		}
	}
	return k, nil
}

func (k *keyring) path(name string) string { return filepath.Join(k.dir, name+".pem") }

// listeners are one for each way to sign in.
func (k *keyring) listeners() []realpart.KafkaListener {
	key, err := os.ReadFile(k.path("server-key"))
	if err != nil {
		return nil // it was written a moment ago; without listeners each sign-in fails
	}
	plain := fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=%q;", user, password)
	const scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	scrams := map[string]string{
		"sasl.enabled.mechanisms":        "SCRAM-SHA-256,SCRAM-SHA-512",
		"scram-sha-256.sasl.jaas.config": scram, "scram-sha-512.sasl.jaas.config": scram,
	}
	with := func(all ...map[string]string) map[string]string {
		sum := map[string]string{}
		for _, properties := range all {
			for name, value := range properties {
				sum[name] = value
			}
		}
		return sum
	}
	tls := map[string]string{
		"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": k.server, "ssl.keystore.key": string(key),
		"ssl.truststore.type": "PEM", "ssl.truststore.certificates": k.ca,
	}
	return []realpart.KafkaListener{
		{Name: "PLAIN", Protocol: "SASL_PLAINTEXT", Properties: map[string]string{
			"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": plain,
		}},
		{Name: "SCRAM", Protocol: "SASL_PLAINTEXT", Properties: scrams},
		{Name: "TLS", Protocol: "SSL", Properties: tls},
		{Name: "MTLS", Protocol: "SSL", Properties: with(tls, map[string]string{"ssl.client.auth": "required"})},
		{Name: "BOTH", Protocol: "SASL_SSL", Properties: with(tls, scrams)},
	}
}

// scram are the users that the broker knows from its first start on.
func (k *keyring) scram() []string {
	var users []string
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		users = append(users, fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, user, password))
	}
	return users
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(day), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	return &authority{cert, key, encodePEM("CERTIFICATE", der)}, nil
}

const day = 24 * time.Hour

// sign makes a certificate for loopback, good for a server and a client.
func (a *authority) sign(name string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(day),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return "", "", fmt.Errorf("signing a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("encoding a key: %w", err)
	}
	return encodePEM("CERTIFICATE", der), encodePEM("PRIVATE KEY", encoded), nil
}

func encodePEM(kind string, der []byte) string {
	return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

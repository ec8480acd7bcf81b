package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// pair is a certificate and its key in PEM form.
type pair struct{ certificate, key string }

var (
	testAuthority = makePair(time.Hour)
	testClient    = makePair(time.Hour)
	expiredClient = makePair(-time.Hour)
)

// makePair makes a certificate that ends after a time from now; one that is past has ended. Whether its machine can
// make keys is beyond what a test can tell, so that it panics.
func makePair(left time.Duration) pair {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(left),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return pair{
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	}
}

func TestLoad_ClientCertificateComesFromPathsReferencesOrTexts(t *testing.T) {
	t.Parallel()
	for _, given := range [][2]string{
		{"client.pem", "client.key"},
		{"file://client.pem", "file://client.key"},
		{"env://CERT", "env://KEY"},
		{testClient.certificate, testClient.key},
		{"both.pem", "both.pem"},
	} {
		w := inline(minimal, "TIDEMARK_KAFKA_TLS_ENABLED=true", "TIDEMARK_KAFKA_TLS_CERTFILE="+given[0],
			"TIDEMARK_KAFKA_TLS_KEYFILE="+given[1], "CERT="+testClient.certificate, "KEY="+testClient.key)
		w.files = map[string]string{
			"client.pem": testClient.certificate, "client.key": testClient.key, "both.pem": testClient.key + testClient.certificate,
		}
		// Of a file that holds both, each key has its part only: CertPEM is printed.
		if got := load(t, w).Kafka.TLS; got.CertPEM != testClient.certificate || got.KeyPEM.Reveal() != testClient.key {
			t.Errorf("certFile %s, keyFile %s: %+v %s", given[0], given[1], got, got.KeyPEM.Reveal())
		}
	}
}

func TestLoad_ClientCertificateProblems(t *testing.T) {
	t.Parallel()
	encrypted := string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("hunter2")}))
	legacy := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-256-CBC,00"}, Bytes: []byte("hunter2")}))
	for _, test := range []struct{ name, cert, key, enabled, want string }{
		{"no key", testClient.certificate, "", "true", "kafka.tls.keyFile: missing; kafka.tls.certFile needs its private key"},
		{"no certificate", "", testClient.key, "true", "kafka.tls.certFile: missing; kafka.tls.keyFile needs its certificate"},
		{"another's key", testClient.certificate, testAuthority.key, "true", "kafka.tls.keyFile: does not fit the certificate of kafka.tls.certFile"},
		{"expired", expiredClient.certificate, expiredClient.key, "true", "kafka.tls.certFile: the certificate expired at 2"},
		{"expired before one that is not", expiredClient.certificate + testClient.certificate, expiredClient.key, "true", "kafka.tls.certFile: the certificate expired at 2"},
		{"encrypted key", testClient.certificate, encrypted, "true", "kafka.tls.keyFile: holds an encrypted private key: store it without a password"},
		{"encrypted key of OpenSSL's old form", testClient.certificate, legacy, "true", "kafka.tls.keyFile: holds an encrypted private key"},
		{"no key in it", testClient.certificate, testClient.certificate, "true", "kafka.tls.keyFile: holds no private key in PEM form"},
		{"a key's text for its path", testClient.certificate, "MIGHhunter2", "true", "kafka.tls.keyFile: the file that it names (not shown) cannot be read"},
		{"no TLS", testClient.certificate, testClient.key, "false", "kafka.tls.certFile: has no effect while kafka.tls.enabled is false"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			vars := []string{"TIDEMARK_KAFKA_TLS_ENABLED=" + test.enabled}
			if test.cert != "" {
				vars = append(vars, "TIDEMARK_KAFKA_TLS_CERTFILE="+test.cert)
			}
			if test.key != "" {
				vars = append(vars, "TIDEMARK_KAFKA_TLS_KEYFILE="+test.key)
			}
			got := problems(t, inline(minimal, vars...))
			if !strings.Contains(got, test.want) || strings.Contains(got, "hunter2") || strings.Contains(got, "-----") {
				t.Errorf("Load = %s\nwant %s", got, test.want)
			}
		})
	}
}

// Of a bundle of authorities some may have ended; when all have, no broker can be verified.
func TestLoad_AuthoritiesMayEndButNotAll(t *testing.T) {
	t.Parallel()
	load(t, inline(minimal, "TIDEMARK_KAFKA_TLS_ENABLED=true", "TIDEMARK_KAFKA_TLS_CAFILE="+expiredClient.certificate+testAuthority.certificate))
	got := problems(t, inline(minimal, "TIDEMARK_KAFKA_TLS_ENABLED=true", "TIDEMARK_KAFKA_TLS_CAFILE="+expiredClient.certificate))
	if !strings.Contains(got, "kafka.tls.caFile: the certificate expired at 2") {
		t.Error(got)
	}
}

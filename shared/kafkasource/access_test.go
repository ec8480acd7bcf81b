package kafkasource_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/kafkasource"
	"github.com/tidemark/tidemark/shared/record"
)

func TestSASL_RightPasswordReadsAndWrongOneIsFatal(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "reader", password))
	try := func(o kafkasource.Options) error {
		o.Brokers, o.Topics = cluster.ListenAddrs(), []string{"a"}
		_, err := open(t, o).Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
		return err
	}
	if err := try(kafkasource.Options{SASL: &kafkasource.Plain{Username: "reader", Password: password}}); err != nil {
		t.Error(err)
	}
	var all sync.WaitGroup
	// kfake hangs up, as brokers before 1.0 do; later ones answer, as the fault makes it.
	all.Go(func() {
		err := try(kafkasource.Options{SASL: &kafkasource.Plain{Username: "reader", Password: "wrong-" + password}})
		wantFault(t, "wrong password", err, fault.Fatal, "kafka-auth", "SASL/PLAIN as reader", "kafka.sasl.password")
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("the error tells the password: %v", err)
		}
	})
	all.Go(func() { wantFault(t, "no SASL", try(kafkasource.Options{}), fault.Transient, "", "SASL") })
	for what, answer := range map[string]struct {
		key kmsg.Key
		err *kerr.Error
	}{
		"refused password": {kmsg.SASLAuthenticate, kerr.SaslAuthenticationFailed}, "other mechanism": {kmsg.SASLHandshake, kerr.UnsupportedSaslMechanism},
	} {
		refusing := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "reader", password))
		refusing.Fault(kfake.Fault{Keys: []kmsg.Key{answer.key}, TopLevel: true, Err: answer.err, Count: -1})
		src := open(t, kafkasource.Options{
			Brokers: refusing.ListenAddrs(), Topics: []string{"a"}, SASL: &kafkasource.Plain{Username: "reader", Password: password},
		})
		all.Go(func() {
			_, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
			wantFault(t, what, err, fault.Fatal, "kafka-auth", "SASL/PLAIN as reader", answer.err.Message)
		})
	}
	all.Wait()
}

func TestPlain_PrintsNoPassword(t *testing.T) {
	t.Parallel()
	p := kafkasource.Plain{Username: "reader", Password: "hidden"}
	for _, text := range []string{fmt.Sprint(p), fmt.Sprintf("%+v", &p), fmt.Sprintf("%#v", p), fmt.Sprintf("%v", kafkasource.Options{SASL: &p})} {
		if strings.Contains(text, "hidden") {
			t.Errorf("it prints as %s", text)
		}
	}
}

func TestTLS_TrustedReadsAndUntrustedIsFatal(t *testing.T) {
	t.Parallel()
	server, roots := selfSigned(t, "127.0.0.1")
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.TLS(server))
	plain := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	try := func(cluster *kfake.Cluster, c *tls.Config) error {
		src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, TLS: c})
		_, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
		return err
	}
	if err := try(cluster, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}); err != nil {
		t.Error(err)
	}
	wantFault(t, "unknown CA", try(cluster, &tls.Config{MinVersion: tls.VersionTLS12}), fault.Fatal, "kafka-tls", "kafka.tls")
	wantFault(t, "other name", try(cluster, &tls.Config{RootCAs: roots, ServerName: "other.example", MinVersion: tls.VersionTLS12}),
		fault.Fatal, "kafka-tls", "other.example")
	wantFault(t, "plaintext to TLS", try(cluster, nil), fault.Transient, "", "TLS")
	wantFault(t, "TLS to plaintext", try(plain, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), fault.Transient, "", "TLS")
}

func selfSigned(t *testing.T, ip string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kfake"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	return server, roots
}

// wantFault checks kind, class and what the one line must name.
func wantFault(t *testing.T, what string, err error, kind fault.Kind, class string, names ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want %s %q", what, kind, class)
		return
	}
	if fault.KindOf(err) != kind || fault.ClassOf(err) != class {
		t.Errorf("%s: %v is %s %q, want %s %q", what, err, fault.KindOf(err), fault.ClassOf(err), kind, class)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: more than one line: %q", what, err)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v does not name %q", what, err, name)
		}
	}
	t.Logf("%s: %v", what, err)
}

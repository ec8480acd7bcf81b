package kafkasource_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/kafkasource"
	"github.com/tidemark/tidemark/shared/record"
)

// signIn is one way to sign in. It reads, unless class says as what it is refused; tells is what the refusal must name.
type signIn struct {
	name    string
	options kafkasource.Options
	class   string
	tells   []string
}

// login is a listener of brokers, real or not, that wants SASL, and who may come in.
type login struct {
	brokers []string
	tls     *tls.Config
	kafkasource.Login
}

// signIns are what must hold of every login.
func (l login) signIns() []signIn {
	as := func(change func(*kafkasource.Login)) kafkasource.Options {
		who := l.Login
		change(&who)
		return kafkasource.Options{Brokers: l.brokers, TLS: l.tls, SASL: &who}
	}
	return []signIn{
		{l.Mechanism + " right", as(func(*kafkasource.Login) {}), "", nil},
		{
			l.Mechanism + " wrong password", as(func(w *kafkasource.Login) { w.Password = "wrong-" + w.Password }),
			"kafka-auth",
			[]string{l.String(), "kafka.sasl.password"},
		},
		{
			l.Mechanism + " wrong user", as(func(w *kafkasource.Login) { w.Username = "nobody" }),
			"kafka-auth",
			[]string{"as nobody", "kafka.sasl.username"},
		},
		{
			"no " + l.Mechanism,
			kafkasource.Options{Brokers: l.brokers, TLS: l.tls},
			"kafka-auth",
			[]string{l.Mechanism, "kafka.sasl.mechanism", "without SASL"},
		},
	}
}

// tlsSignIns are what must hold of a TLS port, whose certificate authority is the first, and of a plaintext port.
func tlsSignIns(encrypted, plaintext []string, ca, otherCA authority) []signIn {
	over := func(brokers []string, c *tls.Config) kafkasource.Options {
		return kafkasource.Options{Brokers: brokers, TLS: c}
	}
	named := ca.trusting()
	named.ServerName = "other.example"
	return []signIn{
		{"right CA", over(encrypted, ca.trusting()), "", nil},
		{"wrong CA", over(encrypted, otherCA.trusting()), "kafka-tls", []string{"unknown authority", "kafka.tls.caFile"}},
		{"wrong server name", over(encrypted, named), "kafka-tls", []string{"other.example", "kafka.tls.serverName"}},
		{"plaintext to TLS", over(encrypted, nil), "kafka-tls", []string{"kafka.tls.enabled: true"}},
		{"TLS to plaintext", over(plaintext, ca.trusting()), "kafka-tls", []string{"speaks plaintext", "kafka.bootstrapServers"}},
	}
}

// mutualSignIns are what must hold of a port that asks for certificates of the authority, in both versions of TLS: in
// 1.3 a client learns of the refusal only after the handshake.
func mutualSignIns(t *testing.T, brokers []string, ca, otherCA authority) []signIn {
	t.Helper()
	var all []signIn
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		showing := func(certs ...tls.Certificate) kafkasource.Options {
			c := ca.trusting()
			c.MinVersion, c.MaxVersion = version, version
			if len(certs) > 0 {
				// Certificates would be left out where the broker tells that it does not know their issuer.
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
				c.Certificates = certs
			}
			return kafkasource.Options{Brokers: brokers, TLS: c}
		}
		hour := time.Now().Add(time.Hour)
		all = append(
			all,
			signIn{name + " right certificate", showing(ca.issue(t, "reader", hour)), "", nil},
			signIn{name + " no certificate", showing(), "kafka-tls", []string{"no certificate", "kafka.tls.certFile"}},
			signIn{
				name + " certificate of another CA", showing(otherCA.issue(t, "reader", hour)),
				"kafka-tls",
				[]string{`of "reader", issued by "other"`, "kafka.tls.certFile"},
			},
			signIn{
				name + " expired certificate", showing(ca.issue(t, "reader", time.Now().Add(-time.Minute))),
				"kafka-tls",
				[]string{`of "reader"`, time.Now().Add(-time.Minute).UTC().Format("2006-01-02"), "kafka.tls.certFile"},
			},
		)
	}
	return all
}

// testSignIns tries all of them at the same time. A refusal is one line, in time, after a handful of connections.
func testSignIns(t *testing.T, topic string, all ...signIn) {
	t.Helper()
	var running sync.WaitGroup // not as parallel tests, of which there are only as many as processors
	for _, s := range all {
		connects := &connects{}
		s.options.Topics, s.options.Hooks = []string{topic}, []kgo.Hook{connects}
		src := open(t, s.options)
		running.Go(func() {
			begun := time.Now()
			log, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
			took := time.Since(begun).Round(time.Millisecond)
			switch {
			case s.class != "":
				wantFault(t, s.name, err, fault.Fatal, s.class, s.tells...)
			case err != nil:
				t.Errorf("%s: %v", s.name, err)
			case len(log.Topics[topic].Partitions) == 0:
				t.Errorf("%s: the log is %+v", s.name, log)
			}
			if login := s.options.SASL; err != nil && login != nil && strings.Contains(err.Error(), login.Password) {
				t.Errorf("%s: the error tells the password: %v", s.name, err)
			}
			if n := connects.n.Load(); took > 15*time.Second || n > 6 {
				t.Errorf("%s: it took %s and %d connections", s.name, took, n)
			}
		})
	}
	running.Wait()
}

// connects counts connections.
type connects struct{ n atomic.Int32 }

func (c *connects) OnBrokerConnect(kgo.BrokerMetadata, time.Duration, net.Conn, error) { c.n.Add(1) }

func TestSignIn_SASL(t *testing.T) {
	t.Parallel()
	logins := []kafkasource.Login{
		{Mechanism: kafkasource.Plain, Username: "plain", Password: "correct-horse-1"},
		{Mechanism: kafkasource.ScramSHA256, Username: "scram, 256=", Password: "correct-horse-2"},
		{Mechanism: kafkasource.ScramSHA512, Username: "scram512", Password: "correct-horse-3"},
	}
	ca := newAuthority(t, "own")
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.EnableSASL()}
	for _, l := range logins {
		opts = append(opts, kfake.Superuser(l.Mechanism, l.Username, l.Password))
	}
	clear := startCluster(t, opts...)
	encrypted := startCluster(t, append(opts, kfake.TLS(ca.server(t)))...)
	var all []signIn
	for _, l := range logins {
		all = append(all, login{clear.ListenAddrs(), nil, l}.signIns()...)
		all = append(all, login{encrypted.ListenAddrs(), ca.trusting(), l}.signIns()...)
	}
	testSignIns(t, "a", all...)
}

// kfake hangs up on a wrong password, as brokers before 1.0 do; later ones answer.
func TestSignIn_RefusalIsTold(t *testing.T) {
	t.Parallel()
	who := kafkasource.Login{Mechanism: kafkasource.ScramSHA256, Username: "reader", Password: "correct-horse"}
	refusing := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(who.Mechanism, who.Username, who.Password))
	refusing.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, TopLevel: true, Err: kerr.SaslAuthenticationFailed, Count: -1})
	offering := startCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(who.Mechanism, who.Username, who.Password))
	offering.ControlKey(int16(kmsg.SASLHandshake), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		offering.KeepControl()
		resp := kmsg.NewPtrSASLHandshakeResponse()
		resp.Version, resp.ErrorCode = kreq.GetVersion(), kerr.UnsupportedSaslMechanism.Code
		resp.SupportedMechanisms = []string{"GSSAPI", "PLAIN", "SCRAM-SHA-512"}
		return resp, nil, true
	})
	testSignIns(
		t, "a",
		signIn{"refused", kafkasource.Options{Brokers: refusing.ListenAddrs(), SASL: &who}, "kafka-auth", []string{
			"SASL/SCRAM-SHA-256 as reader", kerr.SaslAuthenticationFailed.Message, "kafka.sasl.password", "kafka.sasl.mechanism",
		}},
		signIn{"not offered", kafkasource.Options{Brokers: offering.ListenAddrs(), SASL: &who}, "kafka-auth", []string{
			"SASL/SCRAM-SHA-256 as reader", "GSSAPI, PLAIN, SCRAM-SHA-512", "set kafka.sasl.mechanism: SCRAM-SHA-512",
		}},
	)
}

func TestSignIn_TLS(t *testing.T) {
	t.Parallel()
	ca, otherCA := newAuthority(t, "own"), newAuthority(t, "other")
	encrypted := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.TLS(ca.server(t)))
	plaintext := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	server := ca.server(t)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
	mutual := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.TLS(server))
	all := tlsSignIns(encrypted.ListenAddrs(), plaintext.ListenAddrs(), ca, otherCA)
	testSignIns(t, "a", append(all, mutualSignIns(t, mutual.ListenAddrs(), ca, otherCA)...)...)
}

// Over a network, a client that writes before it reads finds its connection reset, in place of the reason.
func TestSignIn_ReasonIsFoundBehindAReset(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "own")
	server := ca.server(t)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
	mutual := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.TLS(server)).ListenAddrs()
	open := func(c *tls.Config) *kafkasource.Source {
		return open(t, kafkasource.Options{Brokers: mutual, Topics: []string{"a"}, TLS: c})
	}
	for _, cause := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		err := open(ca.trusting()).Diagnose(t.Context(), mutual[0], fmt.Errorf("reading: %w", cause))
		wantFault(t, cause.Error(), err, fault.Fatal, "kafka-tls", "certificate required", "kafka.tls.certFile")
	}
	right := ca.trusting()
	right.Certificates = []tls.Certificate{ca.issue(t, "reader", time.Now().Add(time.Hour))}
	if err := open(right).Diagnose(t.Context(), mutual[0], io.EOF); err != nil {
		t.Errorf("with the right certificate: %v", err)
	}
	if err := open(ca.trusting()).Diagnose(t.Context(), mutual[0], errors.New("another")); err != nil {
		t.Errorf("after another error: %v", err)
	}
}

// A source is kept between runs, and the password may be put right at the brokers meanwhile.
func TestSignIn_RefusedOnceIsTriedAgain(t *testing.T) {
	t.Parallel()
	who := kafkasource.Login{Mechanism: kafkasource.ScramSHA512, Username: "reader", Password: "correct-horse"}
	cluster := startCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.EnableSASL(), kfake.Superuser(who.Mechanism, who.Username, who.Password))
	var right atomic.Bool
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if right.Load() {
			return nil, nil, false
		}
		return nil, errors.New("hang up"), true
	})
	src := open(t, kafkasource.Options{Brokers: cluster.ListenAddrs(), Topics: []string{"a"}, SASL: &who})
	_, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
	wantFault(t, "refused", err, fault.Fatal, "kafka-auth", "SCRAM-SHA-512 as reader")
	right.Store(true)
	if _, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1}); err != nil {
		t.Error(err)
	}
}

// A load balancer without brokers takes connections and ends them: that proves nothing against the config.
func TestSignIn_HangUpWithoutProofIsTransient(t *testing.T) {
	t.Parallel()
	balancer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = balancer.Close() })
	go func() {
		for {
			conn, err := balancer.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	who := kafkasource.Login{Mechanism: kafkasource.Plain, Username: "reader", Password: "correct-horse"}
	var running sync.WaitGroup
	for name, o := range map[string]kafkasource.Options{
		"plaintext": {}, "TLS": {TLS: newAuthority(t, "own").trusting()}, "SASL": {SASL: &who},
	} {
		o.Brokers, o.Topics = []string{balancer.Addr().String()}, []string{"a"}
		src := open(t, o)
		running.Go(func() {
			_, err := src.Bounds(t.Context(), record.BoundsQuery{Lanes: 1})
			wantFault(t, name, err, fault.Transient, "", "check that the brokers are up")
		})
	}
	running.Wait()
}

func TestLogin_PrintsNoPassword(t *testing.T) {
	t.Parallel()
	p := kafkasource.Login{Mechanism: kafkasource.ScramSHA256, Username: "reader", Password: "hidden"}
	o := kafkasource.Options{SASL: &p}
	for _, text := range []string{fmt.Sprint(p), fmt.Sprintf("%+v", &p), fmt.Sprintf("%#v", p), fmt.Sprintf("%v", o), fmt.Sprintf("%#v", o)} {
		if strings.Contains(text, "hidden") {
			t.Errorf("it prints as %s", text)
		}
	}
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

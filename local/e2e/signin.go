package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// signInTime is the longest that a wrong credential may take to be told.
const signInTime = 15 * time.Second

// signIn is a way to connect: the right one must move records, the wrong one must be told.
type signIn struct {
	name, listener string
	right, wrong   string // what stands in the section kafka beside the servers
	says           string // a word of the wrong one's line
}

func (k *keyring) signIns() []signIn {
	login := func(mechanism, password string) string {
		return fmt.Sprintf("tls: {enabled: false}, sasl: {mechanism: %s, username: %s, password: %s}", mechanism, user, password)
	}
	tls := func(more string) string { return fmt.Sprintf("tls: {enabled: true, caFile: %q%s}", k.path("ca"), more) }
	pair := func(name string) string {
		return fmt.Sprintf(", certFile: %q, keyFile: %q", k.path(name), k.path(name+"-key"))
	}
	return []signIn{
		{"PLAIN", "PLAIN", login("PLAIN", password), login("PLAIN", "wrong"), "kafka.sasl"},
		{"SCRAM-SHA-256", "SCRAM", login("SCRAM-SHA-256", password), login("SCRAM-SHA-256", "wrong"), "kafka.sasl"},
		{"SCRAM-SHA-512", "SCRAM", login("SCRAM-SHA-512", password), login("SCRAM-SHA-512", "wrong"), "kafka.sasl"},
		{"TLS", "TLS", tls(""), fmt.Sprintf("tls: {enabled: true, caFile: %q}", k.path("other-ca")), "kafka.tls"},
		{"mTLS", "MTLS", tls(pair("client")), tls(pair("stranger")), "kafka.tls"},
		{"mTLS without a certificate", "MTLS", tls(pair("client")), tls(""), "kafka.tls"},
		{
			"SASL_SSL", "BOTH", tls("") + ", sasl: {mechanism: SCRAM-SHA-512, username: " + user + ", password: " + password + "}",
			tls("") + ", sasl: {mechanism: SCRAM-SHA-512, username: nobody, password: " + password + "}", "kafka.sasl",
		},
	}
}

func showSignIns(ctx context.Context, s *stage) (string, error) {
	ways := s.keys.signIns()
	var slowest time.Duration
	for i, way := range ways {
		name := fmt.Sprintf("signin-%d", i)
		if err := s.createTopic(ctx, name, 1, nil); err != nil {
			return "", err
		}
		if err := s.produce(ctx, []*kgo.Record{{Topic: name, Value: []byte(`{"n":1}`)}}); err != nil {
			return "", err
		}
		took, err := s.trySignIn(ctx, name, way)
		if err != nil {
			return "", fmt.Errorf("%s: %w", way.name, err)
		}
		slowest = max(slowest, took)
	}
	return fmt.Sprintf("%d ways, each wrong one is a 500 of one line within %s", len(ways), slowest.Round(time.Millisecond)), nil
}

func (s *stage) trySignIn(ctx context.Context, name string, way signIn) (time.Duration, error) {
	gate, err := newGate(ctx, s.kafka.Listeners[way.listener])
	if err != nil {
		return 0, err
	}
	defer gate.close()
	servers := fmt.Sprintf("{bootstrapServers: [%q], fetchWait: 100ms, ", gate.address)
	t, err := s.move(ctx, pipeline{name: name, kafka: servers + way.right + "}"})
	if err != nil {
		return 0, fmt.Errorf("with the right credential: %w", err)
	}
	if t.written != 1 {
		return 0, fmt.Errorf("with the right credential %d records were written, want the one there is", t.written)
	}
	gate.count.Store(0)
	process, err := s.function(ctx, pipeline{name: name + "-wrong", kafka: servers + way.wrong + "}"})
	if err != nil {
		return 0, err
	}
	defer process.Kill()
	a, err := call(ctx, process)
	if err != nil {
		return 0, err
	}
	tries := gate.count.Load()
	s.say("%-26s %d in %-6s with %2d connections: %s", way.name, a.status, a.took.Round(time.Millisecond), tries, a.Error)
	oneLine := a.Error != "" && !strings.Contains(a.Error, "\n") && strings.Contains(a.Error, way.says) && !strings.Contains(a.Error, password)
	if a.status != http.StatusInternalServerError || a.took > signInTime || !oneLine || tries > maxConnections {
		return 0, fmt.Errorf("the wrong credential gave %d after %s and %d connections, want 500 within %s and %d connections, and a line that "+
			"says %s", a.status, a.took, tries, signInTime, maxConnections, way.says)
	}
	return a.took, nil
}

// maxConnections is what no retry storm is: a client that is refused connects a few times.
const maxConnections = 12

package kafkasource

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// dialer opens connections. It does what the client's own dialer does, but tells a TLS handshake that nobody answers
// from a dial that nobody answers: the first is what a port that speaks plaintext looks like.
type dialer struct {
	tls      *tls.Config
	connects *connectHook // nil for a look at a port
}

func (d dialer) dial(ctx context.Context, network, host string) (net.Conn, error) {
	if d.connects != nil && d.connects.hungUp() {
		return nil, errHungUp
	}
	raw, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, host)
	if err != nil || d.tls == nil {
		return raw, err //nolint:wrapcheck // the client decides by its type whether to try the next broker
	}
	config := d.tls.Clone()
	if config.ServerName == "" {
		if config.ServerName, _, err = net.SplitHostPort(host); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("finding the server name in %q: %w", host, err)
		}
	}
	shaking, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(shaking); err != nil {
		_ = raw.Close()
		if shaking.Err() != nil && ctx.Err() == nil {
			err = &net.OpError{Op: "dial", Net: network, Addr: raw.RemoteAddr(), Err: errMute}
		}
		return nil, fmt.Errorf("TLS handshake with %s: %w", host, err)
	}
	return conn, nil
}

var (
	errMute = errors.New("no answer: does this port speak TLS?")
	// errHungUp ends the client's tries, which would go on for as long as an end of file comes back.
	errHungUp = errors.New("the connection was closed during the login, twice")
)

// The API keys of the requests that say nothing yet about whether a broker takes us for one of its own.
const (
	keyHandshake    = 17
	keyVersions     = 18
	keyAuthenticate = 36
)

// connectHook remembers how connecting went, because the client's errors do not always tell: it answers with its own
// deadline where dials failed until then, and with an end of file where a broker hangs up on a wrong password.
type connectHook struct {
	mu      sync.Mutex
	dial    error
	host    string // last dialed
	silent  bool   // nothing was answered since then but greetings
	hangUps int
}

// OnBrokerConnect is called by the client after each dial.
func (h *connectHook) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dial, h.host, h.silent = err, net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port))), true
}

// OnBrokerRead is called by the client after each answer.
func (h *connectHook) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case key == keyHandshake || key == keyVersions:
	case key != keyAuthenticate:
		if err == nil { // some mechanisms get one answer before the refusal, so only this one shows that we are in
			h.silent, h.hangUps = false, 0
		}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		h.hangUps++
	}
}

// lastDial is the error of the last dial, nil where it succeeded.
func (h *connectHook) lastDial() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dial
}

// forgive lets us try anew: a password may have been put right since.
func (h *connectHook) forgive() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hangUps = 0
}

// hungUp tells whether brokers keep hanging up on our credentials. Once may be a broker that stops.
func (h *connectHook) hungUp() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hangUps >= 2
}

// mute is the host that was dialed last, if nothing came of it.
func (h *connectHook) mute() (host string, mute bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host, h.silent
}

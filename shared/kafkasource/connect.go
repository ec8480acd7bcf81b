package kafkasource

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// dialer opens connections. It does what the client's own dialer does, but tells a TLS handshake that nobody answers
// from a dial that nobody answers: the first is what a port that speaks plaintext looks like.
type dialer struct{ tls *tls.Config }

func (d dialer) dial(ctx context.Context, network, host string) (net.Conn, error) {
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

var errMute = errors.New("no answer: does this port speak TLS?")

// authenticate is the API key of SaslAuthenticate requests in the Kafka protocol.
const authenticate = 36

// connectHook remembers how connecting went, because the client's errors do not always tell: it answers with its own
// deadline where dials failed until then, and with an end of file where a broker hangs up on a wrong password.
type connectHook struct {
	mu      sync.Mutex
	dial    error
	hangUps int
}

// OnBrokerConnect is called by the client after each dial.
func (h *connectHook) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dial = err
}

// OnBrokerRead is called by the client after each answer.
func (h *connectHook) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key != authenticate {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.hangUps = 0
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

// hungUp tells whether brokers keep hanging up on our credentials. Once may be a broker that stops.
func (h *connectHook) hungUp() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hangUps >= 2
}

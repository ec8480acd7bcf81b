package kafkasource

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/fault"
)

// probeTime bounds one look at a broker that hangs up, of which there are at most two for an error that is told.
const probeTime = 2 * time.Second

// isHangUp recognises that a connection was there and ended without a word, or that nothing was ever said on it.
func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errMute) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// diagnose finds out why a broker hangs up on a new connection, where that can be proved: such an end of file is also
// what a broker that stops looks like, or a load balancer that has none. It sends no credentials. It returns nil where
// nothing is proved.
func (s *Source) diagnose(ctx context.Context, doing string, cause error) error {
	host, mute := s.connects.mute()
	if !mute || !isHangUp(cause) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*probeTime)
	defer cancel()
	if s.opts.TLS == nil {
		if speaksTLS(ctx, host) {
			return fault.Fatalf(classTLS, "%s: %s: %s speaks TLS and we plaintext: %w: set kafka.tls.enabled: true, or name a plaintext port in kafka.bootstrapServers",
				s.opts.where(), doing, host, cause)
		}
	} else {
		err := s.refusedCertificate(ctx, host)
		switch {
		case err != nil && isTLS(err):
			return s.tlsFault(doing, err)
		case err != nil && speaksPlaintext(ctx, host):
			return fault.Fatalf(classTLS, "%s: %s: %s speaks plaintext and we TLS: %w: name a TLS port in kafka.bootstrapServers, or set kafka.tls.enabled: false",
				s.opts.where(), doing, host, cause)
		}
	}
	if _, first := errors.AsType[*kgo.ErrFirstReadEOF](cause); !first || s.opts.SASL != nil {
		return nil
	}
	if offered := s.mechanisms(ctx, host); len(offered) > 0 {
		return fault.Fatalf(classAuth, "%s: %s: %s hangs up on a client without SASL, and offers %s: %w: set kafka.sasl.mechanism, kafka.sasl.username and kafka.sasl.password",
			s.opts.where(), doing, host, strings.Join(offered, ", "), cause)
	}
	return nil
}

// refusedCertificate opens a TLS connection and returns why the broker ends it, nil where it waits for us. In TLS 1.3 a
// client learns only by reading that its certificate was refused, and the client, which writes first, then often sees a
// reset connection in place of the reason.
func (s *Source) refusedCertificate(ctx context.Context, host string) error {
	conn, err := dialer{tls: s.opts.TLS}.dial(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it was only looked at
	if err := conn.SetReadDeadline(time.Now().Add(probeTime / 2)); err != nil {
		return nil // without a deadline there is no looking
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err //nolint:wrapcheck // tlsFault says what it is
	}
	return nil
}

// speaksTLS tells whether somebody answers a TLS handshake on the port, with whatever certificate.
func speaksTLS(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	look := dialer{tls: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} //nolint:gosec // nothing is sent on it
	conn, err := look.dial(ctx, "tcp", host)
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return ok && op.Op == "remote error" // a TLS alert
	}
	_ = conn.Close()
	return true
}

// speaksPlaintext tells whether the port answers a Kafka request that is not encrypted.
func speaksPlaintext(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	conn, err := dialer{}.dial(ctx, "tcp", host)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // it was only looked at
	if deadline, ok := ctx.Deadline(); ok && conn.SetDeadline(deadline) != nil {
		return false
	}
	const correlation = 0x7469
	question := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tidemark")).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), correlation)
	if _, err := conn.Write(question); err != nil {
		return false
	}
	var head [8]byte // length and correlation id
	_, err = io.ReadFull(conn, head[:])
	return err == nil && binary.BigEndian.Uint32(head[4:]) == correlation
}

// mechanisms returns the SASL mechanisms that a broker offers, none where it does not tell. It asks for one that nobody
// has, before any login.
func (s *Source) mechanisms(ctx context.Context, host string) []string {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	o := s.opts
	o.SASL, o.Brokers, o.Hooks, o.Logger = nil, []string{host}, nil, nil
	client, err := kgo.NewClient(o.client(&connectHook{})...)
	if err != nil {
		return nil
	}
	defer client.Close()
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = "NONE"
	kresp, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil
	}
	resp, ok := kresp.(*kmsg.SASLHandshakeResponse)
	if !ok || resp.ErrorCode != kerr.UnsupportedSaslMechanism.Code {
		return nil
	}
	return resp.SupportedMechanisms
}

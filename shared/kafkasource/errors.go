package kafkasource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/shared/fault"
)

// The classes of this package's fatal errors.
const (
	classConfig           = "kafka-config"
	classAuth             = "kafka-auth"
	classTLS              = "kafka-tls"
	classACL              = "kafka-acl"
	classUnknownPartition = "unknown-partition"
	classBeforeStart      = "offset-before-log-start"
	classBeyondEnd        = "checkpoint-beyond-log-end"
	classRecreated        = "topic-recreated"
	classTooLarge         = "batch-too-large"
	classCorrupt          = "corrupt-batch"
)

func configError(err error) error {
	return fault.Fatalf(classConfig, "making the Kafka client: %w: correct the section kafka of the config", err)
}

// explain gives an error of the client its kind and says what to do. ctx is the caller's: where it ended, that is the
// reason.
func (s *Source) explain(ctx context.Context, doing string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	dial := s.connects.lastDial()
	if ctx.Err() != nil {
		if dial != nil {
			return fault.Transientf("%s: %s: %w, after %w", s.opts.where(), doing, context.Cause(ctx), dial)
		}
		return fault.Transientf("%s: %s: %w", s.opts.where(), doing, context.Cause(ctx))
	}
	if fatal := s.refused(doing, err); fatal != nil {
		return fatal
	}
	// The client tells of its own deadline, but the dial knows why it passed.
	if dial != nil && errors.Is(err, context.DeadlineExceeded) {
		if fatal := s.refused(doing, dial); fatal != nil {
			return fatal
		}
		err = dial
	}
	return fault.Transientf("%s: %s: %w: check that the brokers are up and that this network reaches them", s.opts.where(), doing, err)
}

// refused returns a fatal error where a person must act: credentials, certificates, ACLs. Else nil.
func (s *Source) refused(doing string, err error) error {
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fault.Fatalf(classAuth, "%s: %s: the brokers refused %s: %w: check kafka.sasl.username and the secret of kafka.sasl.password",
			s.opts.where(), doing, s.who(), err)
	case s.opts.SASL != nil && s.connects.hungUp() && errors.Is(err, io.EOF):
		return fault.Fatalf(classAuth, "%s: %s: the brokers hang up on %s: %w: check kafka.sasl.username and the secret of kafka.sasl.password",
			s.opts.where(), doing, s.who(), err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fault.Fatalf(classAuth, "%s: %s: the brokers do not serve %s: %w: enable PLAIN on this listener, or name another listener in kafka.bootstrapServers",
			s.opts.where(), doing, s.who(), err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fault.Fatalf(classACL, "%s: %s: %s is not allowed to: %w: grant it the ACLs Describe and Read on the topics %v",
			s.opts.where(), doing, s.who(), err, s.names)
	case isTLS(err):
		return fault.Fatalf(classTLS, "%s: %s: TLS: %w: check kafka.tls (caFile, serverName, certFile) and that the port speaks TLS",
			s.opts.where(), doing, err)
	}
	return nil
}

// who names the principal, never the password.
func (s *Source) who() string {
	if s.opts.SASL == nil {
		return "a client without SASL"
	}
	return s.opts.SASL.String()
}

// isTLS tells handshake and certificate errors from broken connections.
func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // an alert, as package tls wraps it
		return true
	}
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}

// isTooLarge recognises the client's refusal to read an answer above BrokerMaxReadBytes. Its error is not exported;
// TestReader_BatchAboveTheLimit holds the text.
func isTooLarge(err error) bool {
	return strings.Contains(err.Error(), "invalid large response size") && strings.Contains(err.Error(), "BrokerMaxReadBytes")
}

// clientLog passes the client's log on, at debug level: what matters of it comes back as an error.
type clientLog struct{ log *slog.Logger }

// Level is called by the client to learn what it need not log.
func (l clientLog) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

// Log is called by the client.
func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	l.log.Debug("kafka client", append([]any{"message", msg, "client_level", level.String()}, keyvals...)...)
}

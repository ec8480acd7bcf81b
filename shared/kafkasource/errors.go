package kafkasource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"slices"
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
	// The client tells of its own deadline, but the dial knows why it passed.
	if dial != nil && errors.Is(err, context.DeadlineExceeded) {
		err = dial
	}
	if errors.Is(err, kerr.UnsupportedSaslMechanism) {
		return s.notOffered(ctx, doing, err)
	}
	if fatal := s.refused(doing, err); fatal != nil {
		return fatal
	}
	if fatal := s.diagnose(ctx, doing, err); fatal != nil {
		return fatal
	}
	return fault.Transientf("%s: %s: %w: check that the brokers are up and that this network reaches them", s.opts.where(), doing, err)
}

// refused returns a fatal error where a person must act: credentials, certificates, ACLs. Else nil.
func (s *Source) refused(doing string, err error) error {
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fault.Fatalf(classAuth, "%s: %s: the brokers refused %s: %w: check kafka.sasl.username, the secret of kafka.sasl.password, and that this user may use kafka.sasl.mechanism",
			s.opts.where(), doing, s.who(), err)
	case errors.Is(err, errHungUp):
		return fault.Fatalf(classAuth, "%s: %s: the brokers hang up on %s: %w: check kafka.sasl.username, the secret of kafka.sasl.password, and that this user may use kafka.sasl.mechanism",
			s.opts.where(), doing, s.who(), err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fault.Fatalf(classAuth, "%s: %s: the brokers do not serve %s: %w: set kafka.sasl.mechanism to one that this listener has, or name another listener in kafka.bootstrapServers",
			s.opts.where(), doing, s.who(), err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fault.Fatalf(classACL, "%s: %s: %s is not allowed to: %w: grant it the ACLs Describe and Read on %s",
			s.opts.where(), doing, s.who(), err, s.opts.subject())
	case isTLS(err):
		return s.tlsFault(doing, err)
	}
	return nil
}

// notOffered names the mechanism to try, if the brokers tell which they have.
func (s *Source) notOffered(ctx context.Context, doing string, err error) error {
	host, _ := s.connects.mute()
	offered := s.mechanisms(ctx, host)
	best := ""
	for _, mechanism := range []string{Plain, ScramSHA256, ScramSHA512} { // the safest last
		if slices.Contains(offered, mechanism) {
			best = mechanism
		}
	}
	if best == "" {
		return s.refused(doing, err)
	}
	return fault.Fatalf(classAuth, "%s: %s: the brokers do not serve %s: %w: they offer %s: set kafka.sasl.mechanism: %s",
		s.opts.where(), doing, s.who(), err, strings.Join(offered, ", "), best)
}

// tlsFault says which side's certificate is at fault.
func (s *Source) tlsFault(doing string, err error) error {
	op, alert := errors.AsType[*net.OpError](err)
	switch {
	case s.opts.TLS == nil:
		return fault.Fatalf(classTLS, "%s: %s: the port speaks TLS and we plaintext: %w: set kafka.tls.enabled: true, or name a plaintext port in kafka.bootstrapServers",
			s.opts.where(), doing, err)
	case !alert || op.Op != "remote error":
		return fault.Fatalf(classTLS, "%s: %s: TLS: %w: check kafka.tls.caFile, kafka.tls.serverName, and that the port speaks TLS",
			s.opts.where(), doing, err)
	case len(s.opts.TLS.Certificates) == 0 && s.opts.TLS.GetClientCertificate == nil:
		return fault.Fatalf(classTLS, "%s: %s: TLS: the brokers refused us, who show no certificate: %w: if they ask for one, set kafka.tls.certFile and kafka.tls.keyFile",
			s.opts.where(), doing, err)
	default:
		return fault.Fatalf(classTLS, "%s: %s: TLS: the brokers refused our certificate%s: %w: check kafka.tls.certFile, kafka.tls.keyFile, and that the brokers trust its issuer",
			s.opts.where(), doing, s.opts.ownCertificate(), err)
	}
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
	if isPlaintextToTLS(err) {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // an alert, as package tls wraps it
		return true
	}
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}

// isPlaintextToTLS recognises the client's remark that it got a TLS alert for an answer. Its error is not exported;
// TestIsPlaintextToTLS_KnowsTheClientsText holds the text.
func isPlaintextToTLS(err error) bool {
	return strings.Contains(err.Error(), "appear to be a tls alert")
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

package kafkasource

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemark/tidemark/shared/fault"
)

// The mechanisms of a Login.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Login is how a client proves to the brokers who it is: by name and password, with one of the mechanisms above. PLAIN
// sends the password as it is and belongs on TLS.
type Login struct {
	Mechanism, Username, Password string
}

// String leaves the password out.
func (l Login) String() string { return "SASL/" + l.Mechanism + " as " + l.Username }

// GoString leaves the password out.
func (l Login) GoString() string { return l.String() }

func (l Login) check() error {
	switch l.Mechanism {
	case Plain, ScramSHA256, ScramSHA512:
	default:
		return fault.Fatalf(classConfig, "kafka: the mechanism %q is unknown: set kafka.sasl.mechanism to %s, %s or %s",
			l.Mechanism, Plain, ScramSHA256, ScramSHA512)
	}
	if l.Username == "" || l.Password == "" {
		return fault.Fatalf(classConfig, "kafka: %s needs kafka.sasl.username and kafka.sasl.password", l)
	}
	return nil
}

func (l Login) mechanism() sasl.Mechanism {
	switch l.Mechanism {
	case ScramSHA256:
		return scram.Auth{User: l.Username, Pass: l.Password}.AsSha256Mechanism()
	case ScramSHA512:
		return scram.Auth{User: l.Username, Pass: l.Password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: l.Username, Pass: l.Password}.AsMechanism()
	}
}

// ownCertificate tells what an operator needs to know of the certificate that we show, "" where that is unknown.
func (o Options) ownCertificate() string {
	if o.TLS == nil || len(o.TLS.Certificates) == 0 || len(o.TLS.Certificates[0].Certificate) == 0 {
		return ""
	}
	leaf, err := x509.ParseCertificate(o.TLS.Certificates[0].Certificate[0])
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" of %q, issued by %q, valid from %s to %s", leaf.Subject.CommonName, leaf.Issuer.CommonName,
		leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
}

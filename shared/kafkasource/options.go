package kafkasource

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tidemark/tidemark/shared/fault"
)

// Options says where Kafka is and what to read of it.
type Options struct {
	// Brokers are the bootstrap servers as host:port.
	Brokers []string
	// Topics are read as a whole, Assign in the named partitions only. Exactly one of them is set.
	Topics []string
	Assign map[string][]int32
	// ReadUncommitted reads up to the high watermark and yields the records of aborted transactions too.
	ReadUncommitted bool
	// TLS is nil for plaintext.
	TLS *tls.Config
	// SASL is nil where the brokers ask for no authentication.
	SASL *Plain
	// ClientID names this client in the brokers' logs and quotas. Default "tidemark".
	ClientID string
	// FetchWait is how long a broker may wait for data before it answers a fetch. Default 500ms.
	FetchWait time.Duration
	// FetchBytes bounds what is fetched and not yet handed over, over all leaders together. Default 16 MiB. A single
	// batch that is larger is fetched nevertheless, up to MaxBatchBytes.
	FetchBytes int32
	// MaxBatchBytes is the most memory that one record batch may take, raw as well as decoded. Default 64 MiB.
	MaxBatchBytes int32
	// Hooks are called by the client at connects, requests and answers.
	Hooks []kgo.Hook
	// Logger gets what the client logs, at debug level. Nil for none.
	Logger *slog.Logger
}

// Plain is a name and password for SASL/PLAIN.
type Plain struct {
	Username, Password string
}

// String leaves the password out.
func (p Plain) String() string { return "SASL/PLAIN as " + p.Username }

// GoString leaves the password out.
func (p Plain) GoString() string { return p.String() }

const (
	mebibyte = 1 << 20

	// An unreachable Kafka must be told within about ten seconds, long before any function's deadline: the run's
	// budget is for reading. A dial may take three seconds, since a black hole answers nothing at all, and a request
	// five on top of what the broker was asked to wait for.
	dialTimeout    = 3 * time.Second
	requestTimeout = 5 * time.Second
	askTimeout     = 10 * time.Second
	// seedsTimeout bounds the client's own tries of one metadata request over the bootstrap servers, brokerTimeout
	// those of a request to one broker: there, asking anew who leads is worth more than asking again.
	seedsTimeout  = 8 * time.Second
	brokerTimeout = 2 * time.Second
	// requestRetries makes about three seconds with the backoff: a hang-up that repeats longer is no accident.
	requestRetries = 5
)

// withDefaults checks the options and fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	if len(o.Brokers) == 0 {
		return o, fault.Fatalf(classConfig, "kafka: no bootstrap servers: set kafka.bootstrapServers")
	}
	if (len(o.Topics) == 0) == (len(o.Assign) == 0) {
		return o, fault.Fatalf(classConfig, "kafka: %d topics are subscribed and %d assigned: set exactly one of source.subscribe and source.assign",
			len(o.Topics), len(o.Assign))
	}
	o.ClientID = cmp.Or(o.ClientID, "tidemark")
	o.FetchWait = cmp.Or(o.FetchWait, 500*time.Millisecond)
	o.FetchBytes = cmp.Or(o.FetchBytes, 16*mebibyte)
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 64*mebibyte)
	if o.FetchWait < 0 || o.FetchWait > time.Minute {
		return o, fault.Fatalf(classConfig, "kafka: fetchWait is %s: set kafka.fetchWait between 1ms and 1m", o.FetchWait)
	}
	if max(o.FetchBytes, o.MaxBatchBytes) > 512*mebibyte || min(o.FetchBytes, o.MaxBatchBytes) < 0 {
		return o, fault.Fatalf(classConfig, "kafka: fetching %d bytes in batches of %d: both must be at most 512 MiB: lower run.limits.memory",
			o.FetchBytes, o.MaxBatchBytes)
	}
	return o, nil
}

// topics returns the topics that are read, in order.
func (o Options) topics() []string {
	if len(o.Assign) > 0 {
		return slices.Sorted(maps.Keys(o.Assign))
	}
	return slices.Compact(slices.Sorted(slices.Values(o.Topics)))
}

// client returns the options of the franz-go client.
func (o Options) client(connects *connectHook) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID(o.ClientID),
		kgo.WithHooks(append([]kgo.Hook{connects}, o.Hooks...)...),
		kgo.Dialer(dialer{o.TLS}.dial),
		kgo.RequestTimeoutOverhead(requestTimeout),
		kgo.RequestRetries(requestRetries),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return min(firstBackoff<<min(tries, 10), lastBackoff) }),
		kgo.RetryTimeoutFn(func(key int16) time.Duration {
			if key == keyMetadata {
				return seedsTimeout
			}
			return brokerTimeout
		}),
		// Metadata is asked for when it is needed; the client's own refreshing would only add requests.
		kgo.MetadataMaxAge(time.Hour),
		kgo.DisableClientMetrics(),
		kgo.MaxDecompressBatchBytes(int(o.MaxBatchBytes)),
		kgo.FetchMaxBytes(o.FetchBytes),
		// One oversized batch may come on top of what was asked for; 16 MiB is room for the metadata of large clusters.
		kgo.BrokerMaxReadBytes(min(max(o.FetchBytes+o.MaxBatchBytes, 16*mebibyte), 1<<30)),
	}
	if o.SASL != nil {
		opts = append(opts, kgo.SASL(plain.Auth{User: o.SASL.Username, Pass: o.SASL.Password}.AsMechanism()))
	}
	if o.Logger != nil {
		opts = append(opts, kgo.WithLogger(clientLog{o.Logger}))
	}
	return opts
}

// where names the brokers for an operator.
func (o Options) where() string { return fmt.Sprintf("Kafka at %v", o.Brokers) }

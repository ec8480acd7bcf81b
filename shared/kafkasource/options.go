package kafkasource

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/shared/fault"
)

// Options says where Kafka is and what to read of it.
type Options struct {
	// Brokers are the bootstrap servers as host:port.
	Brokers []string
	// Topics are read as a whole, Assign in the named partitions only, and of Pattern every topic whose whole name it
	// matches, as Kafka's own consumers match; never one that is internal or begins with "__". Exactly one of the three
	// is set.
	Topics  []string
	Assign  map[string][]int32
	Pattern *regexp.Regexp
	// ReadUncommitted reads up to the high watermark and yields the records of aborted transactions too.
	ReadUncommitted bool
	// TLS is nil for plaintext. Its Certificates are what this client shows to brokers that ask for one.
	TLS *tls.Config
	// SASL is nil where the brokers ask for no authentication.
	SASL *Login
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

	whole *regexp.Regexp // Pattern, for whole names
}

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
	o, err := o.withTopics()
	if err != nil {
		return o, err
	}
	if o.SASL != nil {
		if err := o.SASL.check(); err != nil {
			return o, err
		}
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

// withTopics checks that it is said in one way which topics are read.
func (o Options) withTopics() (Options, error) {
	pattern, ways := "", 0
	if o.Pattern != nil {
		pattern = o.Pattern.String()
	}
	for _, set := range []bool{len(o.Topics) > 0, len(o.Assign) > 0, o.Pattern != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return o, fault.Fatalf(classConfig, "kafka: %d topics are subscribed, %d assigned, and the pattern is %q: set exactly one of source.subscribe, source.assign and source.subscribePattern",
			len(o.Topics), len(o.Assign), pattern)
	}
	if o.Pattern == nil {
		return o, nil
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return o, fault.Fatalf(classConfig, "kafka: source.subscribePattern %q: %w", pattern, err)
	}
	o.whole = whole
	return o, nil
}

// matches tells whether the pattern takes the topic. Kafka's consumers leave its internal topics out too, and the
// leading underscores are how other tools name theirs.
func (o Options) matches(topic string) bool {
	return o.whole != nil && !strings.HasPrefix(topic, "__") && o.whole.MatchString(topic)
}

// subject names what is read, for an operator.
func (o Options) subject() string {
	if o.Pattern != nil {
		return fmt.Sprintf("the topics that match %q", o.Pattern)
	}
	return fmt.Sprintf("the topics %v", o.topics())
}

// topics returns the topics that are read, in order, nil for those of a pattern.
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
		kgo.Dialer(dialer{o.TLS, connects}.dial),
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
		opts = append(opts, kgo.SASL(o.SASL.mechanism()))
	}
	if o.Logger != nil {
		opts = append(opts, kgo.WithLogger(clientLog{o.Logger}))
	}
	return opts
}

// where names the brokers for an operator.
func (o Options) where() string { return fmt.Sprintf("Kafka at %v", o.Brokers) }

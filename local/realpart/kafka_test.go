package realpart_test

import (
	"errors"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemark/tidemark/local/realpart"
)

func startKafka(t *testing.T, opts realpart.KafkaOptions) *realpart.KafkaBroker {
	t.Helper()
	if os.Getenv("KAFKA_BOOTSTRAP") != "" {
		t.Skip("KAFKA_BOOTSTRAP is set: nothing is started")
	}
	b, err := realpart.Kafka(t.Context(), opts)
	if errors.Is(err, realpart.ErrNotFound) && os.Getenv("REQUIRE_REAL") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

func kafkaClient(t *testing.T, host string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(host)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestKafka_WithADirOfItsOwn_GoesOnWithTheLogAfterARestart(t *testing.T) {
	t.Parallel()
	opts := realpart.KafkaOptions{
		Options: realpart.Options{Dir: t.TempDir()},
		Listeners: []realpart.KafkaListener{{Name: "LOGIN", Protocol: "SASL_PLAINTEXT", Properties: map[string]string{
			"sasl.enabled.mechanisms":        "SCRAM-SHA-256",
			"scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		}}},
		SCRAM: []string{"SCRAM-SHA-256=[name=reader,password=first]"},
	}
	b := startKafka(t, opts)
	plain := kafkaClient(t, b.Host, kgo.DefaultProduceTopic("t"))
	if _, err := kadm.NewClient(plain).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if err := plain.ProduceSync(t.Context(), kgo.StringRecord("hello")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	plain.Close()
	b.Stop()

	b = startKafka(t, opts)
	login := kgo.SASL(scram.Auth{User: "reader", Pass: "first"}.AsSha256Mechanism())
	ends, err := kadm.NewClient(kafkaClient(t, b.Listeners["LOGIN"], login)).ListEndOffsets(t.Context(), "t")
	if end, ok := ends.Lookup("t", 0); err != nil || !ok || end.Offset != 1 {
		t.Errorf("the log ends at %+v, %v, want 1", end, err)
	}
}

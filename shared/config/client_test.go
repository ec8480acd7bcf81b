package config_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/config"
)

// withText is the shortest configuration that takes its connection from a text.
const withText = `pipeline: orders
kafka: {properties: "file://client.properties"}
source: {subscribe: [orders]}
sink: {uri: "mongodb://localhost:27017", database: shop, collection: orders}
deadLetters: {collection: orders_dead}
checkpoint: {project: my-project}
`

func properties(text string, vars ...string) world {
	w := inline(withText, vars...)
	w.files = map[string]string{"client.properties": text}
	return w
}

// javaText is what Confluent Cloud hands out for Java's clients, and pythonText for those of librdkafka.
const (
	javaText = `# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=pkc-abc12.europe-west1.gcp.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username='alice-api-key' password='kafka-hunter2';
sasl.mechanism=PLAIN
# Required for correctness in Apache Kafka clients prior to 2.6
client.dns.lookup=use_all_dns_ips

# Best practice for higher availability in Apache Kafka clients prior to 3.0
session.timeout.ms=45000

# Best practice for Kafka producer to prevent data loss
acks=all

# Required connection configs for Confluent Cloud Schema Registry
schema.registry.url=https://psrc-abc12.europe-west3.gcp.confluent.cloud
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=sr-key:sr-hunter2
`
	pythonText = `# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=pkc-abc12.europe-west1.gcp.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
sasl.username=alice-api-key
sasl.password=kafka-hunter2

# Best practice for higher availability in librdkafka clients prior to 1.7
session.timeout.ms=45000

client.id=ccloud-python-client-1234
`
)

func TestLoad_TextsThatConfluentCloudHandsOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		notices    []string
	}{
		{"java", javaText, []string{
			"kafka.properties: ignored: session.timeout.ms (line 10): no consumer group is joined",
			"kafka.properties: ignored: acks (line 13): nothing is produced",
			"kafka.properties: ignored: schema.registry.url (line 16), basic.auth.credentials.source (line 17), basic.auth.user.info (line 18): " +
				"record.format and record.keyFormat say how records are read; there is no schema registry",
		}},
		{"librdkafka", pythonText, []string{
			"kafka.properties: ignored: session.timeout.ms (line 9): no consumer group is joined",
			"kafka.properties: ignored: client.id (line 11): the client is called tidemark- and the pipeline's name",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := load(t, properties(test.text))
			want := wantMinimal()
			want.Kafka.BootstrapServers = []string{"pkc-abc12.europe-west1.gcp.confluent.cloud:9092"}
			want.Kafka.TLS.Enabled = true
			want.Kafka.SASL = config.SASL{Mechanism: "PLAIN", Username: "alice-api-key", Password: "kafka-hunter2"}
			want.Notices = test.notices
			if diff := diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantNoSecret(t, "a Config with notices", strings.Join(got.Notices, "\n")+"***")
		})
	}
}

func TestLoad_EveryHonouredProperty(t *testing.T) {
	t.Parallel()
	fold := func(pem string) string { return strings.ReplaceAll(strings.TrimSpace(pem), "\n", " \\\n    ") }
	got := load(t, properties("bootstrap.servers: SASL_SSL://a:1, b:2\nsecurity.protocol ssl\n"+
		"ssl.truststore.type=PEM\nssl.truststore.certificates="+fold(testAuthority.certificate)+"\n"+
		"ssl.keystore.type=PEM\nssl.keystore.certificate.chain="+fold(testClient.certificate)+"\n"+
		"ssl.keystore.key="+fold(testClient.key)+"\nssl.endpoint.identification.algorithm=HTTPS\n"+
		"isolation.level=read_uncommitted\nfetch.max.wait.ms=250\n"))
	if diff := cmp.Diff([]string{"a:1", "b:2"}, got.Kafka.BootstrapServers); diff != "" {
		t.Errorf("brokers (-want +got):\n%s", diff)
	}
	if got.Source.IsolationLevel != "read_uncommitted" || got.Kafka.FetchWait != 250*time.Millisecond || !got.Kafka.TLS.Enabled || got.Kafka.SASL.Mechanism != "" {
		t.Errorf("%+v", got)
	}
	for what, pair := range map[string][2]string{
		"ca": {got.Kafka.TLS.CAPEM, testAuthority.certificate}, "certificate": {got.Kafka.TLS.CertPEM, testClient.certificate}, "key": {got.Kafka.TLS.KeyPEM.Reveal(), testClient.key},
	} {
		if strip := strings.NewReplacer("\n", "", " ", ""); strip.Replace(pair[0]) != strip.Replace(pair[1]) {
			t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}
	if len(got.Notices) > 0 {
		t.Errorf("notices: %q", got.Notices)
	}
}

func TestLoad_SCRAMInEveryForm(t *testing.T) {
	t.Parallel()
	for _, w := range []world{
		properties("bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n" +
			`sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";`),
		properties("bootstrap.servers=a:1\nsasl.mechanisms=SCRAM-SHA-512\nsasl.username=u\nsasl.password=p", "TIDEMARK_KAFKA_TLS_ENABLED=false"),
		inline(minimal, "TIDEMARK_KAFKA_SASL_MECHANISM=SCRAM-SHA-512", "TIDEMARK_KAFKA_SASL_USERNAME=u", "TIDEMARK_KAFKA_SASL_PASSWORD=p", "TIDEMARK_KAFKA_TLS_ENABLED=false"),
	} {
		got := load(t, w).Kafka
		if got.SASL.Mechanism != "SCRAM-SHA-512" || got.SASL.Username.Reveal() != "u" || got.SASL.Password.Reveal() != "p" || got.TLS.Enabled {
			t.Errorf("%+v", got)
		}
	}
}

func TestLoad_KeysWinOverTheTextAndSaySo(t *testing.T) {
	t.Parallel()
	got := load(t, properties(pythonText, "TIDEMARK_KAFKA_BOOTSTRAPSERVERS=other:1", "TIDEMARK_KAFKA_SASL_PASSWORD=env://P", "P=better"))
	if got.Kafka.BootstrapServers[0] != "other:1" || got.Kafka.SASL.Password.Reveal() != "better" || got.Kafka.SASL.Username.Reveal() != "alice-api-key" {
		t.Errorf("%+v", got.Kafka)
	}
	want := []string{
		"kafka.properties: line 2: bootstrap.servers is not used for kafka.bootstrapServers, which is set too, and wins",
		"kafka.properties: line 6: sasl.password is not used for kafka.sasl.password, which is set too, and wins",
	}
	if diff := cmp.Diff(want, got.Notices[2:]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad_TheTextMayStandInTheFileOrInASecret(t *testing.T) {
	t.Parallel()
	block := strings.Replace(withText, `kafka: {properties: "file://client.properties"}`, "kafka:\n  properties: |\n    bootstrap.servers=a:1\n    client.id=x", 1)
	secret := properties("", "TIDEMARK_KAFKA_PROPERTIES=secret://projects/p/secrets/client/versions/1")
	secret.secrets = map[string]string{"projects/p/secrets/client/versions/1": "bootstrap.servers=a:1\r\nclient.id=x\r\n"}
	for _, w := range []world{inline(block), secret} {
		if got := load(t, w); got.Kafka.BootstrapServers[0] != "a:1" || len(got.Notices) != 1 {
			t.Errorf("%+v", got)
		}
	}
}

func TestLoad_ReportsEveryProblemOfAText(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/problems.properties")
	if err != nil {
		t.Fatal(err)
	}
	got := problems(t, properties(string(text))) + "\n"
	const golden = "testdata/properties.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(got, "hunter") {
		t.Errorf("the error shows a value")
	}
}

func TestLoad_ProblemsOfATextOneByOne(t *testing.T) {
	t.Parallel()
	const servers, file = "bootstrap.servers=a:1\n", "TIDEMARK_CONFIG_INLINE:2: "
	const plain = `sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";` + "\n"
	for _, test := range []struct{ name, text, want string }{
		{"a broken escape", servers + `sasl.password=hunter2\u00zz`, file + `kafka.properties: line 2: an escape \u needs four hexadecimal digits after it`},
		{"a path", "client.properties", file + "kafka.properties: is no text of properties: for a file write file:// before its path"},
		{"no brokers", "client.id=hunter2", file + "kafka.bootstrapServers: missing; write it, or set TIDEMARK_KAFKA_BOOTSTRAPSERVERS"},
		{"no word on TLS", servers + "sasl.mechanism=PLAIN\n" + plain, file + "kafka.tls.enabled: missing; write true, or false if the password of kafka.sasl may cross the network in clear"},
		{"no login", servers + "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u", file + "kafka.sasl.password: missing; kafka.sasl needs mechanism, username and password"},
		{"a login that the protocol leaves out", servers + "security.protocol=SSL\nsasl.username=hunter2", file + "kafka.properties: line 3: sasl.username: has no effect with this security.protocol: write SASL_SSL there, or leave this out"},
		{"the wrong module", servers + "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n" + plain, file + "kafka.properties: line 4: sasl.jaas.config: PlainLoginModule does not fit the mechanism, SCRAM-SHA-256: write ScramLoginModule, or the other mechanism"},
		{"Kerberos", servers + "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.username=u\nsasl.password=p", file + "kafka.properties: line 3: sasl.mechanism: the value (not shown) is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"},
		{"OAUTHBEARER", servers + "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.username=u\nsasl.password=p", file + "kafka.properties: line 3: sasl.mechanism: the value is not supported by this version: use PLAIN or SCRAM; Google's managed Kafka takes PLAIN too, with a service account's address as the username and its key in base64 as the password"},
		{"two logins", servers + "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n" + plain + "sasl.username=hunter2", file + "kafka.properties: line 5: sasl.username: line 4: sasl.jaas.config says it already: keep one"},
		{"no host is verified", servers + "security.protocol=SSL\nssl.endpoint.identification.algorithm=", file + "kafka.properties: line 3: ssl.endpoint.identification.algorithm: must be https: brokers are always verified: name their authority in kafka.tls.caFile, and their name in kafka.tls.serverName where it differs"},
		{"a broker without a port", "bootstrap.servers=a:1,hunter2", file + "kafka.properties: line 1: bootstrap.servers[1]: the value is no broker: write host:port, without a scheme"},
		{"a line that lost its backslash", servers + "hunter2.abc", file + "kafka.properties: line 2: (not shown): no property of Kafka's clients that is known here: leave it out"},
		{"a name with more than a name in it", servers + `ssl.\nhunter2=1`, file + "kafka.properties: line 2: (not shown): no property of Kafka's clients that is known here: leave it out"},
		{"a typing error", servers + "sasl.mehcanism=hunter2", file + "kafka.properties: line 2: sasl.mehcanism: no property of Kafka's clients; did you mean sasl.mechanism?"},
		{"a reference", servers + "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=env://HUNTER", file + "kafka.properties: line 5: sasl.password: references are not followed inside of the text: set the key of kafka instead"},
		{"no TLS", servers + "ssl.truststore.certificates=" + strings.ReplaceAll(testAuthority.certificate, "\n", " "), file + "kafka.properties: line 2: ssl.truststore.certificates: has no effect while kafka.tls.enabled is false: set that to true, or leave this out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := problems(t, properties(test.text))
			_, got, _ = strings.Cut(got, "\n")
			if first, _, _ := strings.Cut(got, "\n"); first != test.want && got != test.want {
				t.Errorf("Load = %s\nwant %s", got, test.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("the error shows a value: %s", got)
			}
		})
	}
}

package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tidemark/tidemark/shared/config"
)

// secrets are the values of the Secret keys of the configuration under test.
var secrets = []string{"mongodb://user:hunter2@db", "alice-api-key", "kafka-hunter2", strings.Split(testClient.key, "\n")[1]}

func withSecrets(t *testing.T) config.Config {
	t.Helper()
	return load(t, inline(minimal, "TIDEMARK_SINK_URI="+secrets[0], "TIDEMARK_KAFKA_SASL_USERNAME="+secrets[1],
		"TIDEMARK_KAFKA_SASL_PASSWORD="+secrets[2], "TIDEMARK_KAFKA_SASL_MECHANISM=PLAIN", "TIDEMARK_KAFKA_TLS_ENABLED=true",
		"TIDEMARK_KAFKA_TLS_CERTFILE="+testClient.certificate, "TIDEMARK_KAFKA_TLS_KEYFILE="+testClient.key))
}

func wantNoSecret(t *testing.T, how, printed string) {
	t.Helper()
	for _, secret := range secrets {
		// %x prints the bytes in hexadecimal.
		if strings.Contains(printed, secret) || strings.Contains(printed, fmt.Sprintf("%x", secret)) || strings.Contains(printed, fmt.Sprintf("%X", secret)) {
			t.Errorf("%s shows %s: %s", how, secret, printed)
		}
	}
	if !strings.Contains(printed, "***") {
		t.Errorf("%s shows no mask: %s", how, printed)
	}
}

func TestConfig_NoVerbOfFmtPrintsASecret(t *testing.T) {
	t.Parallel()
	cfg := withSecrets(t)
	for _, flags := range []string{"", "+", "#", " ", "10", "-.3"} {
		for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
			format := "%" + flags + string(verb)
			if verb == 'T' || verb == 'p' {
				continue // these print no value: the type, and an address or an error
			}
			wantNoSecret(t, format+" of a Config", fmt.Sprintf(format, cfg))
			wantNoSecret(t, format+" of a Secret", fmt.Sprintf(format, cfg.Sink.URI))
			wantNoSecret(t, format+" of a pointer", fmt.Sprintf(format, &cfg.Sink))
		}
	}
	wantNoSecret(t, "Sprint", fmt.Sprint(cfg))
	wantNoSecret(t, "Errorf", fmt.Errorf("opening: %v", cfg).Error())
}

func TestConfig_NoEncoderPrintsASecret(t *testing.T) {
	t.Parallel()
	cfg := withSecrets(t)
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantNoSecret(t, "json", string(text))
	if text, err = yaml.Marshal(cfg.Sink); err != nil {
		t.Fatal(err)
	}
	wantNoSecret(t, "yaml", string(text))
	for name, newHandler := range map[string]func(*bytes.Buffer) slog.Handler{
		"slog json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"slog text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		var out bytes.Buffer
		slog.New(newHandler(&out)).InfoContext(t.Context(), "loaded", slog.Any("config", cfg), slog.Any("uri", cfg.Sink.URI))
		wantNoSecret(t, name, out.String())
	}
}

// What people get wrong with credentials must not print them either.
func TestLoad_ErrorsShowNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"sink: {uri: hunter2}",
		"sink: {uri: *hunter2}",
		"sink: {uri: &hunter2}",
		"sink: {uri: !hunter2 x}",
		"sink: {uri: [hunter2]}",
		"sink: {uri:hunter2}",
		"sink: {uri:mongodb://u:hunter2@h}",
		"sink: {uri: {hunter2: 1}}",
		"sink:\n  uri:hunter2",
		"sink: hunter2",
		"sink: {database: mongodb://u:hunter2@h}",
		"sink: {database: env://HUNTER}",
		"source: {subscribe: env://HUNTER, startingOffsets: env://HUNTER, assign: env://HUNTER}",
		"source: {startingOffsets: env://MAPPING, assign: env://MAPPING}",
		"run: {deadline: env://HUNTER, schedule: env://HUNTER, lanes: env://HUNTER, limits: {memory: env://HUNTER}}",
		"kafka: {bootstrapServers: [env://HUNTER], tls: {enabled: env://HUNTER, caFile: env://HUNTER}}",
		"kafka: {sasl: {password: [hunter2], username: {hunter2: 1}, mechanism: env://HUNTER}}",
		"kafka: {sasl: {mechanism: hunter2}}",
		"kafka: {sasl: {mechanism: [hunter2]}}",
		"record: {dates: '[hunter2', id: {fields: '[hunter2'}}\nkafka: {bootstrapServers: '[hunter2: x'}",
		"record: {dates: env://LIST}\nkafka: {bootstrapServers: env://LIST}\nsource: {subscribe: env://LIST}",
		"record: {dates: [env://DUPLICATE], id: env://HUNTER}\nsink: {mode: env://HUNTER}",
		"kafka: {properties: hunter2}",
		"kafka: {properties: [hunter2]}",
		"kafka: {properties: 'sasl.password=hunter2'}",
		"kafka: {properties: env://HUNTER, tls: {keyFile: hunter2, certFile: env://HUNTER}}",
		"kafka:\n  properties: |\n    sasl.jaas.config=hunter2\n    ssl.keystore.key=hunter2\n    security.protocol=hunter2\n    hunter2=1\n    group.id=hunter2",
		"kafka: {tls: {keyFile: env://HUNTER}}",
		"source: {subscribePattern: env://HUNTER}\nrecord: {metadata: env://LIST, id: {fields: [env://HUNTER]}}",
		"%hunter2 x\n---\na: b",
		"a: 'hunter2",
		"a: @hunter2",
	} {
		w := inline(text, "HUNTER=hunter2", "DUPLICATE=hunter2..", "LIST=[hunter2.., {hunter2: 1}, *hunter2, !hunter2 x]", `MAPPING={"hunter2": {"hunter2": "hunter2"}, "hunter2!": [0, "hunter2"]}`)
		if got := problems(t, w); strings.Contains(got, "hunter2") {
			t.Errorf("%s\nshows it: %s", text, got)
		}
	}
}

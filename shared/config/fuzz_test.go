package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/shared/config"
	"github.com/tidemark/tidemark/shared/fault"
)

// FuzzLoad holds that no text makes Load panic or fail without a kind, and that what it accepts keeps the rules that
// others rely on.
func FuzzLoad(f *testing.F) {
	for _, path := range []string{"../../config.example.yaml", "testdata/problems.yaml"} {
		seed, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(seed))
	}
	f.Add(minimal)
	f.Add("a: &a [*a]\n---\n? {b: c}\n: d")
	f.Add("source: {startingOffsets: '{orders: {0: 1}}', assign: '{orders: [0]}'}\nrun: {schedule: 'TZ= * * * *'}")
	f.Add(strings.Replace(minimal, "bootstrapServers: [localhost:9092]", "properties: |\n    bootstrap.servers=b:1\n    fetch.max.wait.ms=1\n    acks=all", 1))
	f.Add(minimal + "record: {id: '{fields: [a, b]}', format: string, metadata: m}\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := config.Load(t.Context(), inline(text).env())
		if err != nil {
			if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != "bad-config" {
				t.Errorf("kind %s, class %q: %v", fault.KindOf(err), fault.ClassOf(err), err)
			}
			return
		}
		if cfg.Pipeline == "" || cfg.Sink.URI == "" || cfg.Run.Deadline <= 0 || cfg.Checkpoint.Heartbeat >= cfg.Checkpoint.Lease ||
			cfg.Run.Lanes < 1 || ways(cfg.Source) != 1 || cfg.Source.StartingText == "" || cfg.Record.ID.String() == "" {
			t.Errorf("accepted %+v", cfg)
		}
	})
}

// ways counts how the topics are named.
func ways(source config.Source) int {
	n := 0
	for _, given := range []bool{len(source.Subscribe) > 0, source.Pattern != "", len(source.Assign) > 0} {
		if given {
			n++
		}
	}
	return n
}

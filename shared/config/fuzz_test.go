package config_test

import (
	"os"
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
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := config.Load(t.Context(), inline(text).env())
		if err != nil {
			if fault.KindOf(err) != fault.Fatal || fault.ClassOf(err) != "bad-config" {
				t.Errorf("kind %s, class %q: %v", fault.KindOf(err), fault.ClassOf(err), err)
			}
			return
		}
		if cfg.Pipeline == "" || cfg.Sink.URI == "" || cfg.Run.Deadline <= 0 || cfg.Checkpoint.Heartbeat >= cfg.Checkpoint.Lease ||
			cfg.Run.Lanes < 1 || (len(cfg.Source.Subscribe) > 0) == (len(cfg.Source.Assign) > 0) || cfg.Source.StartingText == "" {
			t.Errorf("accepted %+v", cfg)
		}
	})
}

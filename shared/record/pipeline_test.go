package record_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark/tidemark/shared/record"
)

// twoLanes is a pipeline in which every field is set.
func twoLanes() record.Pipeline {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	zero, one := full(), full()
	zero.Lane = 0
	return record.Pipeline{
		Layout: 3, Identity: map[string]string{"sink": "shop.orders"}, Audits: 2, CreatedAt: at, UpdatedBy: "operator",
		Draining: record.Draining{By: "run", Lanes: 3, Layout: 4, Since: at, Until: at.Add(time.Hour)},
		Lanes:    []record.Checkpoint{zero, one},
	}
}

func TestPipeline_CloneIsDeep(t *testing.T) {
	t.Parallel()
	original := twoLanes()
	for i, fields := 0, reflect.ValueOf(original); i < fields.NumField(); i++ {
		if fields.Field(i).IsZero() {
			t.Errorf("twoLanes leaves %s out", fields.Type().Field(i).Name)
		}
	}
	clone := original.Clone()
	if diff := cmp.Diff(original, clone); diff != "" {
		t.Fatalf("(-original +clone):\n%s", diff)
	}
	for i := range clone.Lanes {
		scramble(reflect.ValueOf(&clone.Lanes[i]).Elem())
	}
	scramble(reflect.ValueOf(&clone).Elem())
	if diff := cmp.Diff(twoLanes(), original); diff != "" {
		t.Errorf("a change of the clone reached the original (-want +got):\n%s", diff)
	}
}

func TestPipeline_ChangedIsWhatIsToBeStored(t *testing.T) {
	t.Parallel()
	before := twoLanes()
	if changed := before.Clone().Changed(before); len(changed) != 0 {
		t.Errorf("nothing was changed, and %d lanes were", len(changed))
	}
	after := before.Clone()
	after.UpdatedBy = "changer"
	after.Lanes[1].Schema = 1
	after.Lanes[1].Paused = false
	after.Lanes = append(after.Lanes, record.Checkpoint{Lane: 2, Seq: 9})
	changed := after.Changed(before)
	if len(changed) != 2 {
		t.Fatalf("%d lanes were changed, want 1 and 2", len(changed))
	}
	for i, want := range []record.Checkpoint{{Lane: 1, Seq: 5}, {Lane: 2, Seq: 9}} {
		got := changed[i]
		if got.Lane != want.Lane || got.Seq != want.Seq || got.UpdatedBy != "changer" || got.Schema != record.Schema {
			t.Errorf("lane %d has seq %d by %s, schema %d", got.Lane, got.Seq, got.UpdatedBy, got.Schema)
		}
	}
	after.Lanes[1].Seq = 77 // above all that were ever used, as a change of the lanes needs it
	if changed := after.Changed(before); changed[0].Seq != 77 {
		t.Errorf("seq is %d, want the 77 that it was given", changed[0].Seq)
	}
}

func TestPipeline_ChecksNameTheField(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(*record.Pipeline){
		"layout is -1":          func(p *record.Pipeline) { p.Layout = -1 },
		"audits is -1":          func(p *record.Pipeline) { p.Audits = -1 },
		"draining.lanes is -1":  func(p *record.Pipeline) { p.Draining.Lanes = -1 },
		"lane 0 says lane 1 of": func(p *record.Pipeline) { p.Lanes[0].Lane = 1 },
		"lane 2 of 2":           func(p *record.Pipeline) { p.Lanes[1].Lane = 2 },
		"of 7 under layout 3":   func(p *record.Pipeline) { p.Lanes[1].Lanes = 7 },
		"under layout 9":        func(p *record.Pipeline) { p.Lanes[0].Layout = 9 },
	} {
		p := twoLanes()
		if p.Check() != nil || p.Consistent() != nil {
			t.Fatal("what programs write is refused")
		}
		spoil(&p)
		err := p.Check()
		if err == nil {
			err = p.Consistent()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one that says %q", err, says)
		}
	}
}

func TestDraining_CountsUntilItsEnd(t *testing.T) {
	t.Parallel()
	mark := twoLanes().Draining
	for after, want := range map[time.Duration]bool{0: true, time.Hour - 1: true, time.Hour: false} {
		if got := mark.Counts(mark.Since.Add(after)); got != want {
			t.Errorf("after %s it counts: %v", after, got)
		}
	}
	if (record.Draining{Until: mark.Until}).Counts(mark.Since) {
		t.Error("nobody's mark counts")
	}
}

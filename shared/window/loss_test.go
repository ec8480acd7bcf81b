package window_test

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/window"
)

func TestLossError_NamesThingNumbersAndNextStep(t *testing.T) {
	t.Parallel()
	part := record.Partition{Topic: "orders", ID: 3}
	topic := record.Partition{Topic: "orders", ID: -1}
	for _, c := range []struct {
		err  window.LossError
		want []string
	}{
		{
			window.LossError{Class: window.ClassBeforeLogStart, Partition: part, Offset: 1200, LogStart: 5000},
			[]string{"orders/3: checkpoint 1200 is below the log start 5000: 3800 records were deleted by retention before they were read. " +
				"See docs/playbooks/DataLoss.md, or set onDataLoss: resume."},
		},
		{
			window.LossError{Class: window.ClassBeyondLogEnd, Partition: part, Offset: 500, LogEnd: 300},
			[]string{"orders/3: ", "500", "300", "200", "DataLoss.md"},
		},
		{
			window.LossError{Class: window.ClassRecreated, Partition: topic, CheckpointTopicID: "A1", TopicID: "A2"},
			[]string{"orders: ", "A1", "A2", "onDataLoss: resume"},
		},
		{
			window.LossError{Class: window.ClassEpochWentBack, Partition: part, Offset: 500, CheckpointEpoch: 71, LeaderEpoch: 62},
			[]string{"orders/3: ", "500", "71", "62", "DataLoss.md"},
		},
		{
			window.LossError{Class: window.ClassPartitionMissing, Partition: part, Offset: 77, Since: noon(), TopicGone: true, More: 2},
			[]string{"orders/3 and 2 more: ", "77", "2026-03-01T12:00:00Z", "does not know its topic", "onDataLoss: resume"},
		},
		{
			window.LossError{Class: window.ClassUnknownTopic, Partition: topic},
			[]string{"orders: ", "Create it", "source.subscribe"},
		},
		{
			window.LossError{Class: window.ClassNoStart, Partition: topic, Starting: true},
			[]string{"orders: ", "startingOffsets is none"},
		},
		{
			window.LossError{Class: window.ClassMissingStart, Partition: part, Starting: true},
			[]string{"orders/3: ", "-2 is earliest"},
		},
		{
			window.LossError{Class: window.ClassUnknownPartition, Partition: part, Starting: true},
			[]string{"orders/3: ", "Take it out"},
		},
		{
			window.LossError{Class: window.ClassStartBeyondLogEnd, Partition: part, Starting: true, Offset: 500, LogEnd: 400},
			[]string{"orders/3: ", "500", "400", "100", "-1 for latest"},
		},
		{
			window.LossError{Class: window.ClassBeforeLogStart, Partition: part, Starting: true, Offset: 4, LogStart: 50},
			[]string{"orders/3: ", "startingOffsets 4", "50", "-2 for earliest"},
		},
	} {
		text := c.err.Error()
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q does not say %q", c.err.Class, text, want)
			}
		}
		if strings.ContainsAny(text, "\n\r") {
			t.Errorf("%s: more than one line: %q", c.err.Class, text)
		}
	}
}

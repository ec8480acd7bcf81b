package pull

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// clusterKey is the identity's key for what Kafka says of itself.
const clusterKey = "kafka.cluster"

// identity is what the offsets of this pipeline belong to.
func (r *Runner) identity(log record.Log) map[string]string {
	identity := maps.Clone(r.Identity)
	if identity == nil {
		identity = map[string]string{}
	}
	identity[clusterKey] = log.ClusterID
	return identity
}

// checkFits refuses to go on from a checkpoint that belongs to something else: its numbers would be taken for offsets
// of another log, or its records for documents of another collection.
func (r *Runner) checkFits(checkpoint record.Checkpoint, log record.Log) error {
	if checkpoint.Lanes == 0 {
		return nil // a first run
	}
	var differences []string
	now := r.identity(log)
	for _, key := range slices.Sorted(maps.Keys(now)) {
		was, known := checkpoint.Identity[key]
		if known && was != "" && now[key] != "" && was != now[key] {
			differences = append(differences, fmt.Sprintf("%s was %q and is %q", key, was, now[key]))
		}
	}
	if len(differences) == 0 {
		return nil
	}
	return fault.Fatalf("identity-changed", "the checkpoint of pipeline %s belongs to something else: %s. Set it back, or give the new one "+
		"another pipeline name and another sink.collection: in the old collection its records would be taken for those that are there. See docs/architecture.md, \"What a checkpoint belongs to\"",
		r.Pipeline, strings.Join(differences, "; "))
}

// notices says what an operator may wonder about.
func (r *Runner) notices(checkpoint record.Checkpoint) []string {
	if was := checkpoint.StartingOffsets; was != "" && was != r.StartingText {
		return []string{fmt.Sprintf("startingOffsets is %s now and was %s in the first run: it is for first runs only and has no effect",
			r.StartingText, was)}
	}
	return nil
}

package firecheckpoint

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// encode returns all fields of a lane document. Maps and lists are never nil, so that every field is always there.
func encode(c record.Checkpoint) map[string]any {
	return map[string]any{
		"schema": int64(record.Schema),
		"lane":   int64(c.Lane),
		"lanes":  int64(c.Lanes),
		"layout": int64(c.Layout),
		"paused": c.Paused,
		"seq":    c.Seq,
		"lease": map[string]any{
			"holder":    c.Lease.Holder,
			"epoch":     c.Lease.Epoch,
			"expiresAt": timestamp(c.Lease.ExpiresAt),
		},
		"identity":        encodeMap(c.Identity, same, func(v string) any { return v }),
		"startingOffsets": c.StartingOffsets,
		"topics": encodeMap(c.Topics, same, func(t record.Topic) any {
			return map[string]any{"id": t.ID, "incarnation": t.Incarnation, "rewrite": t.Rewrite}
		}),
		"offsets": encodeMap(c.Offsets, record.Partition.String, encodePosition),
		"missing": encodeMap(c.Missing, record.Partition.String, func(m record.Missing) any {
			return map[string]any{"runs": int64(m.Runs), "since": timestamp(m.Since)}
		}),
		"rejects": encodeList(c.Rejects, func(r record.RejectCount) any {
			return map[string]any{"records": r.Records, "rejected": r.Rejected}
		}),
		"gaps":       encodeList(c.Gaps, encodeGap),
		"gapRecords": c.GapRecords,
		"lastRun":    c.LastRun,
		"updatedBy":  c.UpdatedBy,
		"draining":   encodeDraining(c.Draining), // from schema 2 on
	}
}

func encodeDraining(d record.Draining) map[string]any {
	return map[string]any{
		"by":     d.By,
		"lanes":  int64(d.Lanes),
		"layout": int64(d.Layout),
		"since":  timestamp(d.Since),
		"until":  timestamp(d.Until),
	}
}

func encodePosition(p record.Position) any {
	return map[string]any{
		"offset":      p.Offset,
		"leaderEpoch": int64(p.LeaderEpoch),
		"logStart":    p.LogStart,
		"logEnd":      p.LogEnd,
		"seenAt":      timestamp(p.SeenAt),
		"movedAt":     timestamp(p.MovedAt),
	}
}

func encodeGap(g record.Gap) any {
	return map[string]any{
		"partition":   g.Partition.String(),
		"from":        g.From,
		"to":          g.To,
		"incarnation": g.Incarnation,
		"reason":      g.Reason,
		"seenAt":      timestamp(g.SeenAt),
	}
}

// encodePipeline returns all fields of the pipeline's document but createdAt, which is Firestore's and never changes.
func encodePipeline(p record.Pipeline) map[string]any {
	return map[string]any{
		"schema":    int64(record.Schema),
		"lanes":     int64(len(p.Lanes)),
		"layout":    int64(p.Layout),
		"identity":  encodeMap(p.Identity, same, func(v string) any { return v }),
		"updatedBy": p.UpdatedBy,
		"draining":  encodeDraining(p.Draining), // from schema 2 on
		"audits":    p.Audits,                   // from schema 2 on
	}
}

// encodeAudit returns an entry. It has no expireAt: the audit is kept for ever.
func encodeAudit(a record.Audit) map[string]any {
	text := func(v string) any { return v }
	return map[string]any{
		"schema": int64(record.Schema),
		"number": a.Number,
		"at":     timestamp(a.At),
		"who":    a.Who,
		"what":   a.What,
		"why":    a.Why,
		"before": encodeMap(a.Before, same, text),
		"after":  encodeMap(a.After, same, text),
	}
}

// encodeRun returns a report in the names of its JSON form, with times that Firestore's TTL and queries understand.
func (s *Store) encodeRun(run record.Report) (map[string]any, error) {
	if !validID(run.Run) {
		return nil, fault.Fatalf("bad-name", "run %q cannot be a name in Firestore", run.Run)
	}
	text, err := json.Marshal(run)
	if err != nil {
		return nil, fault.Fatalf("bad-report", "encoding the report of run %s: %w", run.Run, err)
	}
	var fields map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // an offset above 2^53 does not survive a float64
	if err := numbers.Decode(&fields); err != nil {
		return nil, fault.Fatalf("bad-report", "encoding the report of run %s: %w", run.Run, err)
	}
	document, _ := fromJSON(fields).(map[string]any)
	document["startedAt"] = timestamp(run.StartedAt)
	if s.options.RunTTL > 0 {
		document["expireAt"] = timestamp(run.StartedAt.Add(s.options.RunTTL))
	}
	return document, nil
}

// fromJSON turns JSON numbers into the integers and doubles of Firestore.
func fromJSON(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name := range value {
			value[name] = fromJSON(value[name])
		}
	case []any:
		for i := range value {
			value[i] = fromJSON(value[i])
		}
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		f, _ := value.Float64() // it was printed from a float64
		return f
	}
	return value
}

// timestamp is null for the zero time, and cut to the microseconds that Firestore keeps.
func timestamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Truncate(time.Microsecond)
}

func same(key string) string { return key }

func encodeMap[K comparable, V any](from map[K]V, key func(K) string, value func(V) any) map[string]any {
	to := make(map[string]any, len(from))
	for k, v := range from {
		to[key(k)] = value(v)
	}
	return to
}

func encodeList[V any](from []V, value func(V) any) []any {
	to := make([]any, len(from))
	for i, v := range from {
		to[i] = value(v)
	}
	return to
}

package firecheckpoint

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// decode reads the fields of a lane document. It is strict: a field that was deleted or mistyped in the console would else
// be a silent zero, and an offset of zero reads everything again.
func decode(name string, fields map[string]any) (record.Checkpoint, error) {
	top, err := open(name, fields, map[string]any{"draining": encodeDraining(record.Draining{})})
	if err != nil {
		return record.Checkpoint{}, err
	}
	doc := decodeLane(top)
	if top.errs.first != nil {
		return record.Checkpoint{}, corrupt(name, top.errs.first)
	}
	if err := doc.Check(); err != nil {
		return record.Checkpoint{}, corrupt(name, err)
	}
	return doc, nil
}

// open looks at the schema of a document. One of schema 1 is given the fields that schema 2 added, in the form that stands
// for nothing.
func open(name string, fields map[string]any, added map[string]any) (object, error) {
	top := object{fields: fields, errs: new(problems)}
	schema := top.integer("schema")
	switch {
	case top.errs.first != nil:
		return object{}, corrupt(name, top.errs.first)
	case schema > record.Schema:
		return object{}, fault.Fatalf("newer-schema", "%s has schema %d, this version reads up to %d: deploy the newer version, which wrote it",
			name, schema, record.Schema)
	case schema < 1:
		return object{}, corrupt(name, fmt.Errorf("schema %d never existed", schema))
	}
	if schema == 1 {
		top.fields = maps.Clone(fields)
		maps.Copy(top.fields, added)
	}
	return top, nil
}

func decodeLane(top object) record.Checkpoint {
	held := top.object("lease", "holder", "epoch", "expiresAt")
	return record.Checkpoint{
		Schema: record.Schema,
		Lane:   top.int("lane"),
		Lanes:  top.int("lanes"),
		Layout: top.int("layout"),
		Paused: top.boolean("paused"),
		Seq:    top.integer("seq"),
		Lease: record.Lease{
			Holder:    held.text("holder"),
			Epoch:     held.integer("epoch"),
			ExpiresAt: held.time("expiresAt"),
		},
		Identity:        decodeIdentity(top.object("identity")),
		Topics:          decodeTopics(top.object("topics")),
		Offsets:         decodeOffsets(top.object("offsets")),
		Missing:         decodeMissing(top.object("missing")),
		Rejects:         decodeRejects(top.list("rejects", "records", "rejected")),
		Gaps:            decodeGaps(top.list("gaps", "partition", "from", "to", "incarnation", "reason", "seenAt")),
		GapRecords:      top.integer("gapRecords"),
		StartingOffsets: top.text("startingOffsets"),
		LastRun:         top.text("lastRun"),
		UpdatedBy:       top.text("updatedBy"),
		Draining:        decodeDraining(top),
	}
}

func decodeDraining(top object) record.Draining {
	mark := top.object("draining", "by", "lanes", "layout", "since", "until")
	return record.Draining{
		By: mark.text("by"), Lanes: mark.int("lanes"), Layout: mark.int("layout"), Since: mark.time("since"), Until: mark.time("until"),
	}
}

// decodePipeline returns the pipeline's document without those of its lanes, of which it has the number.
func decodePipeline(name string, fields map[string]any) (*record.Pipeline, error) {
	top, err := open(name, fields, map[string]any{"draining": encodeDraining(record.Draining{}), "audits": int64(0)})
	if err != nil {
		return nil, err
	}
	p := record.Pipeline{
		Layout: top.int("layout"), Identity: decodeIdentity(top.object("identity")), Draining: decodeDraining(top),
		Audits: top.integer("audits"), CreatedAt: top.time("createdAt"), UpdatedBy: top.text("updatedBy"),
	}
	lanes := top.int("lanes")
	if lanes < 1 || lanes > maxLanes {
		top.wrong("lanes is %d, it is 1 to %d", lanes, maxLanes)
	}
	if top.errs.first != nil {
		return nil, corrupt(name, top.errs.first)
	}
	if err := p.Check(); err != nil {
		return nil, corrupt(name, err)
	}
	p.Lanes = make([]record.Checkpoint, lanes)
	return &p, nil
}

// maxLanes bounds what an edit by hand can make us look for. Configuration allows 256.
const maxLanes = 1 << 16

func decodeAudit(name string, fields map[string]any) (record.Audit, error) {
	top := object{fields: fields, errs: new(problems)}
	audit := record.Audit{
		Number: top.integer("number"), At: top.time("at"), Who: top.text("who"), What: top.text("what"), Why: top.text("why"),
		Before: decodeIdentity(top.object("before")), After: decodeIdentity(top.object("after")),
	}
	if top.errs.first != nil {
		return record.Audit{}, corrupt(name, top.errs.first)
	}
	return audit, nil
}

func decodeIdentity(from object) map[string]string {
	to := make(map[string]string, len(from.fields))
	for _, name := range from.names() {
		to[name] = from.text(name)
	}
	return to
}

func decodeTopics(from object) map[string]record.Topic {
	to := make(map[string]record.Topic, len(from.fields))
	for _, name := range from.names() {
		t := from.object(name, "id", "incarnation", "rewrite")
		to[name] = record.Topic{ID: t.text("id"), Incarnation: t.integer("incarnation"), Rewrite: t.integer("rewrite")}
	}
	return to
}

func decodeOffsets(from object) map[record.Partition]record.Position {
	to := make(map[record.Partition]record.Position, len(from.fields))
	for _, name := range from.names() {
		p := from.object(name, "offset", "leaderEpoch", "logStart", "logEnd", "seenAt", "movedAt")
		to[from.partition(name)] = record.Position{
			Offset:      p.integer("offset"),
			LeaderEpoch: p.int32("leaderEpoch"),
			LogStart:    p.integer("logStart"),
			LogEnd:      p.integer("logEnd"),
			SeenAt:      p.time("seenAt"),
			MovedAt:     p.time("movedAt"),
		}
	}
	return to
}

func decodeMissing(from object) map[record.Partition]record.Missing {
	to := make(map[record.Partition]record.Missing, len(from.fields))
	for _, name := range from.names() {
		m := from.object(name, "runs", "since")
		to[from.partition(name)] = record.Missing{Runs: m.int("runs"), Since: m.time("since")}
	}
	return to
}

func decodeRejects(from []object) []record.RejectCount {
	var to []record.RejectCount
	for _, r := range from {
		to = append(to, record.RejectCount{Records: r.integer("records"), Rejected: r.integer("rejected")})
	}
	return to
}

func decodeGaps(from []object) []record.Gap {
	var to []record.Gap
	for _, g := range from {
		to = append(to, record.Gap{
			Range:       record.Range{Partition: g.partition(g.text("partition")), From: g.integer("from"), To: g.integer("to")},
			Incarnation: g.integer("incarnation"),
			Reason:      g.text("reason"),
			SeenAt:      g.time("seenAt"),
		})
	}
	return to
}

// problems keeps the first thing that is wrong with a document, so that reading it needs no branch per field.
type problems struct{ first error }

// object reads the fields of one map.
type object struct {
	path   string // "" at the top
	fields map[string]any
	errs   *problems
}

func (o object) names() []string { return slices.Sorted(maps.Keys(o.fields)) }

func (o object) at(name string) string {
	if o.path == "" {
		return name
	}
	return fmt.Sprintf("%s[%q]", o.path, name)
}

func (o object) wrong(format string, args ...any) {
	if o.errs.first == nil {
		o.errs.first = fmt.Errorf(format, args...)
	}
}

// value returns a field of type T, and its zero after noting that it is not there or something else.
func value[T any](o object, name, kind string) T {
	v, ok := o.fields[name].(T)
	switch _, exists := o.fields[name]; {
	case ok:
	case exists:
		o.wrong("%s is no %s", o.at(name), kind)
	default:
		o.wrong("%s is missing", o.at(name))
	}
	return v
}

func (o object) integer(name string) int64 { return value[int64](o, name, "integer") }

func (o object) text(name string) string { return value[string](o, name, "text") }

func (o object) boolean(name string) bool { return value[bool](o, name, "boolean") }

func (o object) int(name string) int {
	n := o.integer(name)
	if int64(int(n)) != n {
		o.wrong("%s is %d, which is too large", o.at(name), n)
	}
	return int(n)
}

func (o object) int32(name string) int32 {
	n := o.integer(name)
	if n < math.MinInt32 || n > math.MaxInt32 {
		o.wrong("%s is %d, which is too large", o.at(name), n)
		return 0
	}
	return int32(n)
}

// time returns a timestamp, or the zero time for null.
func (o object) time(name string) time.Time {
	if v, exists := o.fields[name]; exists && v == nil {
		return time.Time{}
	}
	return value[time.Time](o, name, "timestamp").UTC().Truncate(time.Microsecond)
}

// object returns a map. Where its names are given, others are refused: the next write would lose them.
func (o object) object(name string, names ...string) object {
	inner := object{path: o.at(name), fields: value[map[string]any](o, name, "map"), errs: o.errs}
	inner.refuseOthers(names)
	return inner
}

func (o object) list(name string, names ...string) []object {
	var objects []object
	for i, element := range value[[]any](o, name, "array") {
		inner := object{path: fmt.Sprintf("%s[%d]", o.at(name), i), errs: o.errs}
		fields, ok := element.(map[string]any)
		if !ok {
			o.wrong("%s is no map", inner.path)
		}
		inner.fields = fields
		inner.refuseOthers(names)
		objects = append(objects, inner)
	}
	return objects
}

func (o object) refuseOthers(names []string) {
	if len(names) == 0 {
		return
	}
	for _, name := range o.names() {
		if !slices.Contains(names, name) {
			o.wrong("%s is not known", o.at(name))
		}
	}
}

// partition is the inverse of record.Partition.String. The topic may hold slashes; a second spelling of a number, such as
// 03, is refused, because two keys could then mean one partition.
func (o object) partition(key string) record.Partition {
	slash := strings.LastIndexByte(key, '/')
	id, err := strconv.ParseInt(key[slash+1:], 10, 32)
	if slash < 0 || err != nil || strconv.FormatInt(id, 10) != key[slash+1:] {
		o.wrong("%s: %q is not topic/partition", o.path, key)
		return record.Partition{}
	}
	return record.Partition{Topic: key[:slash], ID: int32(id)}
}

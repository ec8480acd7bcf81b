package firecheckpoint

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
)

// Limits of Firestore: https://cloud.google.com/firestore/quotas. A transaction has no limit of documents any more, and
// configuration allows 256 lanes.
const (
	maxDocument = 1 << 20
	// A commit is one request, of at most 10 MiB. Sizes are counted as Firestore counts stored documents; the fifth that is
	// left is for the form of the request.
	maxEdit = 8 << 20
)

// Edit reads and writes in one transaction. What it read is locked, or looked at again, until it is committed.
func (s *Store) Edit(ctx context.Context, change lease.Edit) error {
	call, cancel := beginCall(ctx)
	defer cancel()
	client, err := s.connect(call)
	if err != nil {
		return err
	}
	err = client.RunTransaction(call, func(_ context.Context, tx *firestore.Transaction) error {
		before, now, err := s.readAll(tx, client)
		if err != nil {
			return err
		}
		after := before.Clone()
		audit, err := change(now, &after)
		if err != nil {
			return err
		}
		return s.store(tx, client, before, after, audit, now)
	})
	if status.Code(err) == codes.AlreadyExists {
		return corrupt(s.show(s.pipeline(client)), fmt.Errorf("it does not know of a document that is there: %w", brief{err}))
	}
	if err != nil {
		return s.classify(ctx, call, "changing "+s.show(s.pipeline(client)), err)
	}
	return nil
}

// readAll reads the documents of the pipeline, or says what is missing. The time is Firestore's.
func (s *Store) readAll(tx *firestore.Transaction, client *firestore.Client) (record.Pipeline, time.Time, error) {
	none, own := record.Pipeline{}, s.pipeline(client)
	found, err := tx.GetAll([]*firestore.DocumentRef{own})
	if err != nil {
		return none, time.Time{}, err //nolint:wrapcheck // classified by the caller; RunTransaction must see an Aborted
	}
	now := found[0].ReadTime
	lanes, err := tx.Documents(own.Collection("lanes")).GetAll()
	if err != nil {
		return none, time.Time{}, err //nolint:wrapcheck // as above
	}
	if !found[0].Exists() {
		if len(lanes) > 0 {
			return none, time.Time{}, s.missing(own, "although there is "+strings.Join(idsOf(lanes), ", "))
		}
		return none, now, nil
	}
	pipeline, err := decodePipeline(s.show(own), found[0].Data())
	if err != nil {
		return none, time.Time{}, err
	}
	read := map[string]*firestore.DocumentSnapshot{}
	for _, lane := range lanes {
		read[lane.Ref.ID] = lane
	}
	for i := range pipeline.Lanes {
		snapshot, ok := read[strconv.Itoa(i)]
		if !ok {
			others, err := s.records(tx, client)
			if err != nil {
				return none, time.Time{}, err
			}
			return none, time.Time{}, s.missing(s.lane(client, i), fmt.Sprintf("although the pipeline has %d lanes and left %s", len(pipeline.Lanes),
				strings.Join(append(append([]string{"its own document"}, idsOf(lanes)...), others...), ", ")))
		}
		if pipeline.Lanes[i], err = decode(s.show(snapshot.Ref), snapshot.Data()); err != nil {
			return none, time.Time{}, err
		}
	}
	if len(lanes) > len(pipeline.Lanes) {
		return none, time.Time{}, corrupt(s.show(own), fmt.Errorf("it has %d lanes and there is %s", len(pipeline.Lanes), strings.Join(idsOf(lanes), ", ")))
	}
	if err := pipeline.Consistent(); err != nil {
		return none, time.Time{}, corrupt(s.show(own), err)
	}
	return *pipeline, now, nil
}

func idsOf(lanes []*firestore.DocumentSnapshot) []string {
	var ids []string
	for _, lane := range lanes {
		ids = append(ids, "lane "+lane.Ref.ID)
	}
	return ids
}

// store writes in what a pipeline differs from what it was.
func (s *Store) store(tx *firestore.Transaction, client *firestore.Client, before, after record.Pipeline, audit *record.Audit, now time.Time) error {
	for _, err := range []error{after.Check(), after.Consistent()} {
		if err != nil {
			return fault.Fatalf("firestore-refused", "changing %s: %w", s.show(s.pipeline(client)), err)
		}
	}
	w := writes{tx: tx}
	for _, doc := range after.Changed(before) {
		w.put(s.lane(client, doc.Lane), encode(doc), doc.Lane < len(before.Lanes))
	}
	for lane := len(after.Lanes); lane < len(before.Lanes); lane++ {
		w.remove(s.lane(client, lane))
	}
	if audit != nil {
		entry := *audit
		after.Audits = before.Audits + 1
		entry.Number, entry.At = after.Audits, now
		w.put(s.audit(client, entry.Number), encodeAudit(entry), false)
	}
	if is := encodePipeline(after); !reflect.DeepEqual(encodePipeline(before), is) {
		w.put(s.pipeline(client), is, true)
	}
	if len(before.Lanes) == 0 && w.count > 0 {
		return fault.Fatalf("checkpoint-missing", "%s does not exist: a pipeline that has never run has nothing that could be changed",
			s.show(s.pipeline(client)))
	}
	return w.err(s.show(s.pipeline(client)), len(after.Lanes))
}

// writes are the writes of one transaction, and the first error of any.
type writes struct {
	tx             *firestore.Transaction
	count          int
	bytes, largest int
	largestName    string
	failed         error
}

func (w *writes) put(doc *firestore.DocumentRef, fields map[string]any, exists bool) {
	w.count++
	size := sizeOf(fields)
	w.bytes += size
	if size > w.largest {
		w.largest, w.largestName = size, doc.Path[strings.Index(doc.Path, "/documents/")+len("/documents/"):]
	}
	var err error
	if exists {
		err = w.tx.Update(doc, replacement(fields))
	} else {
		err = w.tx.Create(doc, fields)
	}
	w.note(err)
}

func (w *writes) remove(doc *firestore.DocumentRef) {
	w.count++
	w.note(w.tx.Delete(doc))
}

func (w *writes) note(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// err refuses what Firestore would refuse, in words that say what to do.
func (w *writes) err(pipeline string, lanes int) error {
	switch {
	case w.largest > maxDocument:
		return fault.Fatalf("layout-too-large", "changing %s to %d lanes: %s would have %d bytes, a document may have %d: take more lanes",
			pipeline, lanes, w.largestName, w.largest, maxDocument)
	case w.bytes > maxEdit:
		return fault.Fatalf("layout-too-large", "changing %s to %d lanes: all documents together have %d bytes, one transaction may have %d: "+
			"split the topics over several pipelines", pipeline, lanes, w.bytes, maxEdit)
	}
	return w.failed
}

// sizeOf counts bytes as Firestore does: https://cloud.google.com/firestore/docs/storage-size. The name of the document,
// of less than a hundred bytes, is left out.
func sizeOf(value any) int {
	switch value := value.(type) {
	case map[string]any:
		size := 32
		for name, inner := range value {
			size += len(name) + 1 + sizeOf(inner)
		}
		return size
	case []any:
		size := 0
		for _, inner := range value {
			size += sizeOf(inner)
		}
		return size
	case string:
		return len(value) + 1
	case bool, nil:
		return 1
	default:
		return 8
	}
}

func (s *Store) audit(client *firestore.Client, number int64) *firestore.DocumentRef {
	return s.pipeline(client).Collection("audit").Doc(fmt.Sprintf("%010d", number)) // a name that sorts by number
}

// Audits returns the audit of the pipeline, oldest first.
func (s *Store) Audits(ctx context.Context) ([]record.Audit, error) {
	call, cancel := beginCall(ctx)
	defer cancel()
	client, err := s.connect(call)
	if err != nil {
		return nil, err
	}
	entries := s.pipeline(client).Collection("audit")
	found, err := entries.OrderBy(firestore.DocumentID, firestore.Asc).Documents(call).GetAll()
	if err != nil {
		return nil, s.classify(ctx, call, "reading the audit of "+s.show(s.pipeline(client)), err)
	}
	audits := make([]record.Audit, len(found))
	for i, entry := range found {
		if audits[i], err = decodeAudit(s.show(entry.Ref), entry.Data()); err != nil {
			return nil, err
		}
	}
	return audits, nil
}

// replacement sets each top-level field. Maps are values here, so that they are replaced as a whole: a partition that is
// gone is gone, and no key such as "orders/3" is ever read as a path.
func replacement(fields map[string]any) []firestore.Update {
	updates := make([]firestore.Update, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		updates = append(updates, firestore.Update{FieldPath: firestore.FieldPath{name}, Value: fields[name]})
	}
	return updates
}

package firecheckpoint

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/record"
)

// Load reads the document in one RPC. The answer has Firestore's own time, for a document that is absent too.
func (s *Store) Load(ctx context.Context, lane int) (lease.Snapshot, error) {
	call, cancel := beginCall(ctx)
	defer cancel()
	client, err := s.connect(call)
	if err != nil {
		return lease.Snapshot{}, err
	}
	doc := s.lane(client, lane)
	doing := "reading " + s.show(doc)
	snapshot, err := doc.Get(call)
	if status.Code(err) == codes.NotFound && snapshot != nil { // without a snapshot it is the database that is not found
		return lease.Snapshot{ReadAt: snapshot.ReadTime}, nil
	}
	if err != nil {
		return lease.Snapshot{}, s.classify(ctx, call, doing, err)
	}
	var fields map[string]any
	if err := snapshot.DataTo(&fields); err != nil {
		return lease.Snapshot{}, corrupt(s.show(doc), err)
	}
	stored, err := decode(s.show(doc), fields)
	if err != nil {
		return lease.Snapshot{}, err
	}
	if stored.Lane != lane {
		return lease.Snapshot{}, corrupt(s.show(doc), fmt.Errorf("lane is %d", stored.Lane))
	}
	return lease.Snapshot{Doc: &stored, Revision: revisionOf(snapshot.UpdateTime), ReadAt: snapshot.ReadTime}, nil
}

// Create stores the pipeline's document and one for each lane, in one transaction that finds no trace of them.
func (s *Store) Create(ctx context.Context, doc record.Checkpoint) (lease.Revision, error) {
	call, cancel := beginCall(ctx)
	defer cancel()
	client, err := s.connect(call)
	if err != nil {
		return "", err
	}
	own := s.lane(client, doc.Lane)
	var committed firestore.CommitResponse
	err = client.RunTransaction(call, func(_ context.Context, tx *firestore.Transaction) error {
		if err := s.refuseTraces(tx, client, doc); err != nil {
			return err
		}
		// The lane's own document is first, so that its update time is the first result.
		if err := tx.Create(own, encode(doc)); err != nil {
			return err //nolint:wrapcheck // classified below, where it may be a refusal of the server too
		}
		for lane := range doc.Lanes {
			if lane == doc.Lane {
				continue
			}
			if err := tx.Create(s.lane(client, lane), encode(doc.Sibling(lane))); err != nil {
				return err //nolint:wrapcheck // as above
			}
		}
		first := encodePipeline(record.Pipeline{
			Layout: doc.Layout, Identity: doc.Identity, UpdatedBy: doc.UpdatedBy, Lanes: make([]record.Checkpoint, doc.Lanes),
		})
		first["createdAt"] = firestore.ServerTimestamp
		return tx.Create(s.pipeline(client), first)
	}, firestore.WithCommitResponseTo(&committed))
	doing := "creating " + s.show(own)
	switch status.Code(err) {
	case codes.AlreadyExists, codes.FailedPrecondition:
		return "", fault.Conflictf("%s: another run created it first: %w", doing, brief{err})
	default:
	}
	if err != nil {
		return "", s.classify(ctx, call, doing, err)
	}
	results, err := committed.WriteResults()
	if err != nil || len(results) == 0 {
		return "", fault.Transientf("%s: the answer has no update time: %w", doing, err)
	}
	return revisionOf(results[0].UpdateTime), nil
}

// refuseTraces says why the first documents cannot be created: they exist, or something says that they did.
func (s *Store) refuseTraces(tx *firestore.Transaction, client *firestore.Client, doc record.Checkpoint) error {
	own := s.lane(client, doc.Lane)
	var traces []string
	found, err := tx.GetAll([]*firestore.DocumentRef{s.pipeline(client)})
	if err != nil {
		return err //nolint:wrapcheck // classified by the caller; RunTransaction must see an Aborted
	}
	if found[0].Exists() {
		if layout, ok := found[0].Data()["layout"].(int64); ok && layout != int64(doc.Layout) {
			return fault.Conflictf("creating %s: %s has layout %d and not %d: another run created it first", s.show(own),
				s.show(found[0].Ref), layout, doc.Layout)
		}
		traces = append(traces, "the pipeline's document, created "+found[0].CreateTime.UTC().Format(time.RFC3339))
	}
	// Names are enough: Select without fields. The runs outlive the rest when someone deletes documents one by one.
	lanes, err := tx.Documents(s.pipeline(client).Collection("lanes").Select()).GetAll()
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	for _, lane := range lanes {
		if lane.Ref.ID == own.ID {
			return fault.Conflictf("%s exists: another run created it first", s.show(own))
		}
		traces = append(traces, "lane "+lane.Ref.ID)
	}
	others, err := s.records(tx, client)
	if err != nil {
		return err
	}
	if traces = append(traces, others...); len(traces) == 0 {
		return nil
	}
	return s.missing(own, "although earlier runs left "+strings.Join(traces, ", "))
}

// records names one run and one audit entry, as far as there are any.
func (s *Store) records(tx *firestore.Transaction, client *firestore.Client) ([]string, error) {
	var traces []string
	for _, of := range []struct{ collection, name string }{{"runs", "run "}, {"audit", "audit entry "}} {
		one, err := tx.Documents(s.pipeline(client).Collection(of.collection).Select().Limit(1)).Next()
		switch {
		case err == nil:
			traces = append(traces, of.name+one.Ref.ID)
		case !errors.Is(err, iterator.Done):
			return nil, err //nolint:wrapcheck // classified by the caller; RunTransaction must see an Aborted
		}
	}
	return traces, nil
}

// Update replaces every field of the document in one Commit, if its update time is still the revision's.
func (s *Store) Update(ctx context.Context, doc record.Checkpoint, at lease.Revision, run *record.Report) (lease.Revision, error) {
	call, cancel := beginCall(ctx)
	defer cancel()
	client, err := s.connect(call)
	if err != nil {
		return "", err
	}
	own := s.lane(client, doc.Lane)
	doing := "updating " + s.show(own)
	updateTime, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil {
		return "", fault.Conflictf("%s: %q is no revision of it", doing, at)
	}
	// The deprecated WriteBatch is what fits. Its successors are a transaction, which is BeginTransaction and Commit, two
	// round trips for a write that reads nothing and is guarded by its precondition, and BulkWriter, which is not atomic.
	batch := client.Batch() //nolint:staticcheck // see above
	batch.Update(own, replacement(encode(doc)), firestore.LastUpdateTime(updateTime))
	if run != nil {
		report, err := s.encodeRun(*run)
		if err != nil {
			return "", err
		}
		batch.Set(s.pipeline(client).Collection("runs").Doc(run.Run), report)
	}
	results, err := batch.Commit(call)
	switch {
	case status.Code(err) == codes.FailedPrecondition:
		return "", s.refused(ctx, call, doc, err)
	case status.Code(err) == codes.NotFound && strings.Contains(err.Error(), "/documents/"): // else it is the database
		return "", s.gone(ctx, call, doc)
	case err != nil:
		return "", s.classify(ctx, call, doing, err)
	}
	return revisionOf(results[0].UpdateTime), nil
}

// refused says who was faster. Firestore refuses an update of a deleted document in the same words, so one read, which
// only a refusal costs, tells the two apart; where it fails the refusal stands.
func (s *Store) refused(ctx, call context.Context, doc record.Checkpoint, err error) error {
	client, connectErr := s.connect(call)
	if connectErr != nil {
		return connectErr
	}
	own, by := s.lane(client, doc.Lane), "somebody"
	snapshot, readErr := own.Get(call)
	switch {
	case readErr == nil:
		if id, ok := snapshot.Data()["updatedBy"].(string); ok {
			by = id
		}
	case status.Code(readErr) == codes.NotFound && snapshot != nil:
		return s.gone(ctx, call, doc)
	}
	return fault.Conflictf("updating %s: it was changed by %s since it was read: %w", s.show(own), by, brief{err})
}

// gone says why a lane that was read has no document any more: the lanes were changed, or somebody deleted it.
func (s *Store) gone(ctx, call context.Context, doc record.Checkpoint) error {
	client, err := s.connect(call)
	if err != nil {
		return err
	}
	own := s.lane(client, doc.Lane)
	found, err := client.GetAll(call, []*firestore.DocumentRef{s.pipeline(client)})
	if err != nil {
		err = s.classify(ctx, call, "looking for why "+s.show(own)+" is gone", err)
		if fault.KindOf(err) == fault.Transient {
			return err
		}
		return s.missing(own, "although it was read before") // which is known, whatever is wrong with the other one
	}
	if layout, ok := found[0].Data()["layout"].(int64); ok && layout != int64(doc.Layout) {
		return fault.Conflictf("%s is gone: %v changed the lanes of the pipeline, which has layout %d now and not %d", s.show(own),
			found[0].Data()["updatedBy"], layout, doc.Layout)
	}
	return s.missing(own, "although it was read before")
}

func (s *Store) pipeline(client *firestore.Client) *firestore.DocumentRef {
	return client.Collection(s.options.Collection).Doc(s.options.Pipeline)
}

func (s *Store) lane(client *firestore.Client, lane int) *firestore.DocumentRef {
	return s.pipeline(client).Collection("lanes").Doc(strconv.Itoa(lane))
}

// show is the document's name below the database, as the console shows it.
func (s *Store) show(doc *firestore.DocumentRef) string {
	_, name, _ := strings.Cut(doc.Path, "/documents/")
	return name
}

func revisionOf(updateTime time.Time) lease.Revision {
	return lease.Revision(updateTime.UTC().Format(time.RFC3339Nano))
}

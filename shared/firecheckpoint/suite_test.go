package firecheckpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tidemark/tidemark/local/realpart/realtest"
	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/pulltest"
	"github.com/tidemark/tidemark/shared/record"
)

func TestMain(m *testing.M) { realtest.Main(m) }

// projectOf gives each test a project of its own: the emulator's transactions wait for each other within one, for up to
// two seconds, and then give up.
func projectOf(t *testing.T) string {
	t.Helper()
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.Name())) // a hash never fails to write
	return fmt.Sprintf("test-%08x", h.Sum32())
}

func TestConformance_CheckpointsInFirestore(t *testing.T) {
	t.Parallel()
	realtest.Firestore(t) // skips the whole suite at once where there is none
	pulltest.TestCheckpoints(t, func(t *testing.T) pulltest.CheckpointHarness { return newHarness(t) })
}

// warmed says that the emulator of this process has done each kind of call once.
var warmed sync.Once

// emulator returns the emulator's address. Its first calls take seconds on a busy machine, more than a store waits, so
// they are made here.
func emulator(t *testing.T) string {
	t.Helper()
	host := realtest.Firestore(t)
	warmed.Do(func() {
		store, err := firecheckpoint.New(firecheckpoint.Options{Project: "warm-up", Pipeline: "warm-up", Emulator: host})
		must(t, err)
		defer func() { must(t, store.Close()) }()
		for range 10 { // of up to ten seconds each
			_, err := store.Create(t.Context(), record.Checkpoint{Schema: record.Schema, Lanes: 1})
			if err == nil || fault.KindOf(err) != fault.Transient {
				return
			}
		}
		t.Error("the Firestore emulator does not answer in time: is the machine overloaded?")
	})
	return host
}

// pipelineOf names a pipeline after its test, so that no test meets the documents of another one.
func pipelineOf(t *testing.T) string {
	t.Helper()
	return strings.NewReplacer("/", ".", " ", "-", ",", "").Replace(t.Name())
}

func newStore(t *testing.T, options ...grpc.DialOption) *firecheckpoint.Store {
	t.Helper()
	store, err := firecheckpoint.New(firecheckpoint.Options{
		Project: projectOf(t), Pipeline: pipelineOf(t), RunTTL: 24 * time.Hour,
		Emulator: emulator(t), DialOptions: options,
	})
	must(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// newClient is Firestore as an operator reaches it.
func newClient(t *testing.T) *firestore.Client {
	t.Helper()
	conn, err := grpc.NewClient(emulator(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	client, err := firestore.NewClient(t.Context(), projectOf(t), option.WithGRPCConn(conn))
	must(t, err)
	t.Cleanup(func() { must(t, client.Close()) })
	return client
}

func newHarness(t *testing.T) pulltest.CheckpointHarness {
	t.Helper()
	pipeline := newClient(t).Collection("tidemark").Doc(pipelineOf(t))
	lane := func(n int) *firestore.DocumentRef { return pipeline.Collection("lanes").Doc(fmt.Sprint(n)) }
	set := func(t *testing.T, n int, name string, value any) {
		t.Helper()
		_, err := lane(n).Update(t.Context(), []firestore.Update{{Path: name, Value: value}})
		must(t, err)
	}
	store := newStore(t)
	return pulltest.CheckpointHarness{
		Store: store,
		Other: newStore(t),
		DeleteLane: func(t *testing.T, n int) {
			t.Helper()
			_, err := lane(n).Delete(t.Context(), firestore.Exists)
			must(t, err)
		},
		DeletePipeline: func(t *testing.T) {
			t.Helper()
			_, err := pipeline.Delete(t.Context(), firestore.Exists)
			must(t, err)
		},
		DeleteRuns: func(t *testing.T) {
			t.Helper()
			all, err := pipeline.Collection("runs").Documents(t.Context()).GetAll()
			must(t, err)
			for _, run := range all {
				_, err := run.Ref.Delete(t.Context())
				must(t, err)
			}
		},
		Audits: func(ctx context.Context) ([]record.Audit, error) {
			never(t, pipeline.Collection("audit"))
			return store.Audits(ctx)
		},
		LowerSchema: func(t *testing.T, n int) {
			t.Helper()
			for _, doc := range []*firestore.DocumentRef{lane(n), pipeline} {
				_, err := doc.Update(t.Context(), []firestore.Update{
					{Path: "schema", Value: 1}, {Path: "draining", Value: firestore.Delete}, {Path: "audits", Value: firestore.Delete},
				})
				must(t, err)
			}
		},
		RaiseSchema: func(t *testing.T, n int) {
			t.Helper()
			set(t, n, "schema", record.Schema+1)
			set(t, n, "offsets.news", true)
		},
		Pause: func(t *testing.T, n int) {
			t.Helper()
			set(t, n, "paused", true)
		},
		Runs: func(t *testing.T) []record.Report {
			t.Helper()
			return runs(t, pipeline)
		},
	}
}

// runs reads the reports and checks what only Firestore has: real timestamps, and the time of their removal.
func runs(t *testing.T, pipeline *firestore.DocumentRef) []record.Report {
	t.Helper()
	snapshots, err := pipeline.Collection("runs").Documents(t.Context()).GetAll()
	must(t, err)
	reports := make([]record.Report, len(snapshots))
	for i, snapshot := range snapshots {
		started, _ := snapshot.Data()["startedAt"].(time.Time)
		expire, ok := snapshot.Data()["expireAt"].(time.Time)
		if started = started.Add(24 * time.Hour); !ok || (snapshot.Data()["startedAt"] != nil && !expire.Equal(started)) {
			t.Errorf("expireAt = %v, want the run's start and 24 h: %v", expire, started)
		}
		text, err := json.Marshal(snapshot.Data())
		must(t, err)
		must(t, json.Unmarshal(text, &reports[i]))
	}
	return reports
}

// never checks that no TTL policy removes the audit.
func never(t *testing.T, audit *firestore.CollectionRef) {
	t.Helper()
	entries, err := audit.Documents(t.Context()).GetAll()
	must(t, err)
	for _, entry := range entries {
		if _, ok := entry.Data()["expireAt"]; ok {
			t.Errorf("audit entry %s has an expireAt", entry.Ref.ID)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package realpart_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tidemark/tidemark/local/realpart"
)

func start(t *testing.T, f func(context.Context, realpart.Options) (*realpart.Process, error), opts realpart.Options) *realpart.Process {
	t.Helper()
	p, err := f(t.Context(), opts)
	if errors.Is(err, realpart.ErrNotFound) && os.Getenv("REQUIRE_REAL") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func collection(t *testing.T, uri string) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return client.Database("realpart").Collection("c")
}

func TestMongod_WithADirOfItsOwn_GoesOnWithTheDataAfterARestart(t *testing.T) {
	if os.Getenv("MONGODB_URI") != "" {
		t.Skip("MONGODB_URI is set: nothing is started")
	}
	t.Parallel()
	dir := t.TempDir()
	p := start(t, realpart.Mongod, realpart.Options{Dir: dir, CacheGB: 0.25})
	if _, err := collection(t, p.URI).InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.Stop()
	p = start(t, realpart.Mongod, realpart.Options{Dir: dir, CacheGB: 0.25})
	n, err := collection(t, p.URI).CountDocuments(t.Context(), bson.D{})
	if err != nil || n != 1 {
		t.Fatalf("counted %d documents, error %v, expected 1", n, err)
	}
}

func TestFirestoreEmulator_Starts(t *testing.T) {
	t.Parallel()
	if p := start(t, realpart.FirestoreEmulator, realpart.Options{}); p.Host == "" {
		t.Fatal("no host")
	}
}

func TestFirestoreEmulator_WithAJarThatIsNotThere_IsNotFound(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	t.Setenv("TIDEMARK_FIRESTORE_JAR", "/nowhere/emulator.jar")
	if _, err := realpart.FirestoreEmulator(t.Context(), realpart.Options{}); !errors.Is(err, realpart.ErrNotFound) {
		t.Fatalf("got %v, expected ErrNotFound", err)
	}
}

func TestParts_WithAnAddressInTheEnvironment_StartNothing(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	uri := "mongodb://user:secret@" + host + "/?replicaSet=rs"
	t.Setenv("MONGODB_URI", uri)
	t.Setenv("FIRESTORE_EMULATOR_HOST", host)
	for _, wanted := range []string{"answers", "is gone"} {
		mongod, err := realpart.Mongod(t.Context(), realpart.Options{})
		emulator, emulatorErr := realpart.FirestoreEmulator(t.Context(), realpart.Options{})
		if wanted == "answers" {
			if err != nil || emulatorErr != nil || mongod.URI != uri || emulator.Host != host || mongod.Started || emulator.Started {
				t.Errorf("got %v, %v and %v, %v", mongod, err, emulator, emulatorErr)
			}
			_ = listener.Close()
			continue
		}
		for _, err := range []error{err, emulatorErr} {
			if err == nil || errors.Is(err, realpart.ErrNotFound) || strings.Contains(err.Error(), "secret") {
				t.Errorf("an address where nothing answers ended with %v", err)
			}
		}
	}
}

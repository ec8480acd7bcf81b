package ingest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tidemark/tidemark/shared/config"
	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/firecheckpoint"
	"github.com/tidemark/tidemark/shared/kafkasource"
	"github.com/tidemark/tidemark/shared/lease"
	"github.com/tidemark/tidemark/shared/localcheckpoint"
	"github.com/tidemark/tidemark/shared/mapping"
	"github.com/tidemark/tidemark/shared/mongosink"
	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
	"github.com/tidemark/tidemark/shared/secretmanager"
	"github.com/tidemark/tidemark/shared/telemetry"
)

func newFunction() *function {
	level, known := logLevel(os.Getenv(levelVariable))
	logger := telemetry.NewLogger(os.Stdout, os.Getenv("GOOGLE_CLOUD_PROJECT"), level)
	if !known {
		logger.Warn(levelVariable + " is neither debug nor info: info is used")
	}
	return &function{logger: logger, service: service{build: func(ctx context.Context) (*pipeline, error) {
		return build(ctx, logger)
	}}}
}

// levelVariable sets what is logged: info (the default) is one line a run, debug adds one for each phase of it.
const levelVariable = "LOG_LEVEL"

func logLevel(text string) (level slog.Level, known bool) {
	switch strings.ToLower(text) {
	case "debug":
		return slog.LevelDebug, true
	case "", "info":
		return slog.LevelInfo, true
	}
	return slog.LevelInfo, false
}

// build makes a pipeline of the configuration. It opens no connection: that is the runs' to do, as far as they need it.
func build(ctx context.Context, logger *slog.Logger) (*pipeline, error) {
	cfg, err := loadConfig(ctx)
	if err != nil {
		return nil, err
	}
	p, err := assemble(cfg, logger)
	if err != nil {
		return nil, &assembleError{pipeline: cfg.Pipeline, error: err}
	}
	for _, notice := range cfg.Notices {
		logger.InfoContext(ctx, "configuration", "pipeline", cfg.Pipeline, "notice", notice)
	}
	return p, nil
}

// assembleError says whose pipeline could not be assembled, for the log line that an alert goes by.
type assembleError struct {
	error
	pipeline string
}

func (e *assembleError) Unwrap() error { return e.error }

// assemble makes the parts of a pipeline and puts them together.
func assemble(cfg config.Config, logger *slog.Logger) (*pipeline, error) {
	debug.SetMemoryLimit(softLimit(cfg.Run.Limits.Memory))

	mapper, err := mapping.New(mapping.Options{
		Format: mapping.Format(cfg.Record.Format), KeyFormat: mapping.Format(cfg.Record.KeyFormat), Mode: cfg.Sink.Mode,
		ID:         mapping.ID{From: mapping.IDFrom(cfg.Record.ID.From), Field: cfg.Record.ID.Field, Fields: cfg.Record.ID.Fields},
		Tombstones: mapping.Tombstones(cfg.Sink.Tombstones), Metadata: cfg.Record.Metadata, GuardField: cfg.Sink.GuardField,
		Dates: cfg.Record.Dates, EpochSeconds: cfg.Record.EpochSeconds, ObjectIDs: cfg.Record.ObjectIDs, Decimals: cfg.Record.Decimals,
		RejectDuplicateKeys: cfg.Record.DuplicateKeys == "error", Wrap: cfg.Record.Wrap,
	})
	if err != nil {
		return nil, fmt.Errorf("building the mapping: %w", err)
	}
	reader, err := buildSource(cfg)
	if err != nil {
		return nil, err
	}
	sink, err := mongosink.New(mongosink.Options{
		URI: cfg.Sink.URI.Reveal(), Database: cfg.Sink.Database, Collection: cfg.Sink.Collection,
		DeadLetters: cfg.DeadLetters.Collection, GuardField: cfg.Sink.GuardField,
		IgnoreDuplicates: cfg.Sink.OnDuplicate == "ignore", Pipeline: cfg.Pipeline,
		Mode: cfg.Sink.Mode, Deletes: cfg.Sink.Tombstones == tombstonesDelete, TombstoneRetention: cfg.Sink.TombstoneRetention,
	})
	if err != nil {
		return nil, fmt.Errorf("building the sink: %w", err)
	}
	store, err := buildStore(cfg)
	if err != nil {
		return nil, err
	}
	return &pipeline{deadline: cfg.Run.Deadline, runner: &pull.Runner{
		Settings: settings(cfg), Source: source{reader}, Converter: mapper, Sink: sink, Checkpoints: store,
		NewRunID: newRunID, Logger: logger,
	}}, nil
}

// besideHeap is what is resident and not counted by the runtime: 26 MiB of the program's own pages, and what the runtime
// goes over its limit by, which is a soft one.
const besideHeap = 34 << 20

// softLimit is the runtime's share of the resident limit.
func softLimit(memory int64) int64 { return min(memory/10*8, memory-besideHeap) }

const tombstonesDelete = "delete" // of sink.tombstones

// configTime bounds how long secrets are waited for: other calls wait for the first one.
const configTime = 10 * time.Second

func loadConfig(ctx context.Context) (config.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, configTime)
	defer cancel()
	secrets := secretmanager.New()
	defer func() { _ = secrets.Close() }() // it was only read from
	return config.Load(ctx, config.OS(secrets.Get))
}

// source returns the reader as the interface that package pull knows, which adapters do not import.
type source struct{ *kafkasource.Source }

func (s source) Open(ctx context.Context, ranges []record.Range, topicIDs map[string]string) pull.Reader {
	return s.Source.Open(ctx, ranges, topicIDs)
}

func buildSource(cfg config.Config) (*kafkasource.Source, error) {
	options := kafkasource.Options{
		Brokers: cfg.Kafka.BootstrapServers, Topics: cfg.Source.Subscribe, Assign: cfg.Source.Assign,
		ReadUncommitted: cfg.Source.IsolationLevel == "read_uncommitted", FetchWait: cfg.Kafka.FetchWait,
		ClientID: "tidemark-" + cfg.Pipeline,
		// A response is held while its batches are decoded one by one: a sixteenth of the memory, and a single batch may
		// take half of it.
		FetchBytes: int32(min(cfg.Run.Limits.Memory/16, 16<<20)), MaxBatchBytes: int32(min(cfg.Run.Limits.Memory/2, 512<<20)),
	}
	var err error
	if pattern := cfg.Source.Pattern; pattern != "" {
		if options.Pattern, err = regexp.Compile(pattern); err != nil {
			return nil, fault.Fatalf("bad-config", "source.subscribePattern: %w", err)
		}
	}
	if options.TLS, err = buildTLS(cfg.Kafka.TLS); err != nil {
		return nil, err
	}
	if login := cfg.Kafka.SASL; login.Mechanism != "" {
		options.SASL = &kafkasource.Login{Mechanism: login.Mechanism, Username: login.Username.Reveal(), Password: login.Password.Reveal()}
	}
	built, err := kafkasource.New(options)
	if err != nil {
		return nil, fmt.Errorf("building the source: %w", err)
	}
	return built, nil
}

// buildTLS returns nil where the connections to Kafka are not encrypted. What is wrong with a PEM is told without it.
func buildTLS(cfg config.TLS) (*tls.Config, error) {
	if !cfg.Enabled {
		return nil, nil
	}
	built := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.ServerName}
	if cfg.CAPEM != "" {
		built.RootCAs = x509.NewCertPool()
		if !built.RootCAs.AppendCertsFromPEM([]byte(cfg.CAPEM)) {
			return nil, fault.Fatalf("bad-config", "kafka.tls.caFile: holds no certificate in PEM form")
		}
	}
	if cfg.CertPEM != "" {
		pair, err := tls.X509KeyPair([]byte(cfg.CertPEM), []byte(cfg.KeyPEM.Reveal()))
		if err != nil {
			return nil, fault.Fatalf("bad-config", "kafka.tls.certFile and kafka.tls.keyFile are no pair of certificate and key")
		}
		built.Certificates = []tls.Certificate{pair}
	}
	return built, nil
}

func buildStore(cfg config.Config) (lease.Store, error) {
	switch cfg.Checkpoint.Store {
	case "file":
		return localcheckpoint.OpenFile(cfg.Checkpoint.Path, cfg.Pipeline)
	case "memory":
		return localcheckpoint.NewMemory(time.Now), nil
	default:
		return firecheckpoint.New(firecheckpoint.Options{
			Project: cfg.Checkpoint.Project, Database: cfg.Checkpoint.Database,
			Collection: cfg.Checkpoint.Collection, Pipeline: cfg.Pipeline, RunTTL: runTTL,
		})
	}
}

// runTTL is how long the summary of a run is kept in Firestore. Totals of gaps are kept for ever, in the lane.
const runTTL = 30 * 24 * time.Hour

func settings(cfg config.Config) pull.Settings {
	topics := cfg.Source.Subscribe
	if len(topics) == 0 {
		for topic := range cfg.Source.Assign {
			topics = append(topics, topic)
		}
	}
	return pull.Settings{
		Pipeline: cfg.Pipeline, Topics: topics, Pattern: cfg.Source.Pattern, Assign: cfg.Source.Assign, Lanes: cfg.Run.Lanes, Layout: cfg.Run.Layout,
		Identity: map[string]string{
			"sink": cfg.Sink.Database + "." + cfg.Sink.Collection, "mode": string(cfg.Sink.Mode),
			"id": cfg.Record.ID.String(), "format": cfg.Record.Format,
		},
		Starting: cfg.Source.StartingOffsets, StartingText: cfg.Source.StartingText,
		ResumeAfterLoss: cfg.Source.OnDataLoss == "resume",
		MaxRecords:      cfg.Run.Limits.Records, MaxBytes: cfg.Run.Limits.Bytes, MinPerPartition: cfg.Run.Limits.MinPerPartition,
		// A record is held as it came and as a document, and the garbage of the last ones beside it.
		InFlight: cfg.Run.Limits.Memory / 8,
		// Each writer has its chunk as documents, as a command and as what the driver makes of that, and as garbage of the
		// last one: four writers of a sixty-fourth are a quarter.
		ChunkRecords: cfg.Sink.Batch.Records, ChunkBytes: min(cfg.Sink.Batch.Bytes, cfg.Run.Limits.Memory/64), Writers: cfg.Sink.Writers,
		LeaseLength: cfg.Checkpoint.Lease, Heartbeat: cfg.Checkpoint.Heartbeat, WritesEndWithLease: cfg.Sink.Tombstones == tombstonesDelete,
		CommitEvery: pull.DefaultCommitEvery, Reserve: pull.ReserveOf(cfg.Run.Deadline), Patience: pull.DefaultPatience,
		StopAtReject: cfg.DeadLetters.OnReject == "stop", MaxRejectRatio: cfg.DeadLetters.MaxRatio, RejectWindow: cfg.DeadLetters.Window,
	}
}

// newRunID is unique and sorts by time.
func newRunID() string {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // crypto/rand never fails since Go 1.24
	return time.Now().UTC().Format("20060102T150405.000Z") + "-" + hex.EncodeToString(random)
}

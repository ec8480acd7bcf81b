package config

import (
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

// Config is the checked configuration of one pipeline. The tree is that of the YAML file.
type Config struct {
	Pipeline    string
	Kafka       Kafka
	Source      Source
	Record      Record
	Sink        Sink
	DeadLetters DeadLetters
	Checkpoint  Checkpoint
	Run         Run
	// Notices say what was read and has no effect, a line each, for the log.
	Notices []string
}

// Kafka says how brokers are reached.
type Kafka struct {
	BootstrapServers []string // host:port
	TLS              TLS
	SASL             SASL
	// FetchWait is how long a broker may hold a fetch that finds nothing.
	FetchWait time.Duration
}

// TLS of the connections to Kafka.
type TLS struct {
	Enabled bool
	// CAPEM is the content of caFile: PEM certificates, "" for the system's.
	CAPEM string
	// CertPEM and KeyPEM are the client's certificates and its private key, which fit together; "" for none.
	CertPEM string
	KeyPEM  Secret
	// ServerName replaces the broker's host name in verification; "" for none.
	ServerName string
}

// SASL of the connections to Kafka. Mechanism is "" where there is none.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	Username  Secret
	Password  Secret
}

// Source says what is read. Exactly one of Subscribe, Pattern and Assign is set.
type Source struct {
	Subscribe []string
	// Pattern is a regular expression that package regexp compiles, to be matched against whole topic names.
	Pattern string
	Assign  map[string][]int32
	// StartingOffsets is for topics without a checkpoint. It stays out of JSON, which has no form for its map; there
	// StartingText stands for it.
	StartingOffsets record.StartingOffsets `json:"-"`
	// StartingText is StartingOffsets in one fixed spelling, so that a change of it can be seen.
	StartingText   string
	IsolationLevel string // read_committed, read_uncommitted
	OnDataLoss     string // fail, resume
}

// Record says how a record becomes a document.
type Record struct {
	Format    string // json, extjson, bson, string, bytes
	KeyFormat string // string, json, extjson, bson, bytes
	ID        ID
	// Dates, EpochSeconds, ObjectIDs and Decimals are dotted paths; no path is in two of them.
	Dates, EpochSeconds, ObjectIDs, Decimals []string
	DuplicateKeys                            string // last, error
	// Wrap is the name that a value which is no document is stored under; "" refuses it. It is set for string and bytes.
	Wrap string
	// Metadata is the name of the field for coordinates, timestamp, key and headers; "" for none.
	Metadata string
}

// Sink says where documents go.
type Sink struct {
	URI        Secret
	Database   string
	Collection string
	Mode       record.Mode
	Tombstones string // deadLetter, delete, ignore
	// TombstoneRetention is how long the guards of deleted keys are kept.
	TombstoneRetention time.Duration
	OnDuplicate        string // deadLetter, ignore
	GuardField         string
	Batch              Batch
	Writers            int
}

// Batch bounds one write.
type Batch struct {
	Records int
	Bytes   int64
}

// DeadLetters says what happens to records that can never be written.
type DeadLetters struct {
	Collection string // in the sink's database
	OnReject   string // deadLetter, stop
	// MaxRatio of the last Window records may be dead letters, in (0, 1].
	MaxRatio float64
	Window   int64
}

// Checkpoint says where the checkpoint is kept.
type Checkpoint struct {
	Store string // firestore, file, memory
	// Project, Database and Collection are Firestore's.
	Project    string
	Database   string
	Collection string
	// Path is the folder of the file store.
	Path      string
	Lease     time.Duration
	Heartbeat time.Duration
}

// Run bounds one run.
type Run struct {
	// Schedule is a cron line of five fields, "" where it is not told.
	Schedule string
	Deadline time.Duration
	Lanes    int
	Layout   int
	Limits   Limits
}

// Limits of one run. 0 records or bytes is no limit.
type Limits struct {
	Records int64
	Bytes   int64
	// Memory is the peak resident size that the run must stay below.
	Memory          int64
	MinPerPartition int64
}

package mongosink

import (
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// Options say where and how to write.
type Options struct {
	// URI is the connection string, a secret: Options never prints it.
	URI string `json:"-"`
	// Database and Collection take the documents, the collection DeadLetters of the same database the dead letters.
	Database, Collection, DeadLetters string
	// GuardField is the field that holds a document's origin, as package mapping writes it.
	GuardField string
	// Mode is what becomes of the documents; "" is record.Insert.
	Mode record.Mode
	// Deletes takes deletions along, in the keyed modes. Every call then looks for deletions of its keys.
	Deletes bool
	// TombstoneRetention is how long the guard of a deleted key is kept at least: no dead letter that is older may be
	// replayed. 0 is 30 days.
	TombstoneRetention time.Duration
	// IgnoreDuplicates drops a record whose _id or unique field another record took, and counts it as ignored,
	// instead of rejecting it.
	IgnoreDuplicates bool
	// Pipeline names the writer of a dead letter, since several pipelines may share the collection.
	Pipeline string
	// PoolMonitor, where given, sees the driver's connections.
	PoolMonitor *event.PoolMonitor `json:"-"`
}

// String returns the namespace, never the URI.
func (o Options) String() string { return o.Database + "." + o.Collection }

// GoString returns the namespace, never the URI.
func (o Options) GoString() string { return o.String() }

// LogValue returns the namespace, never the URI.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Fatal classes of this package.
const (
	classBadURI           = "bad-mongodb-uri"
	classBadSink          = "bad-sink"
	classWeakWriteConcern = "weak-write-concern"
	classAuth             = "mongodb-auth"
	classNamespace        = "bad-namespace"
	classLetterRefused    = "dead-letter-refused"
	classShardKey         = "bad-shard-key"
)

// selectionTimeout bounds how long an unreachable server is waited for, instead of the driver's 30 s: the run backs off
// and tries again by itself, and its time is short.
const selectionTimeout = 10 * time.Second

func (o Options) check() error {
	for _, required := range []struct{ name, value string }{
		{"uri", o.URI},
		{"database", o.Database},
		{"collection", o.Collection},
		{"deadLetters", o.DeadLetters},
		{"guardField", o.GuardField},
		{"pipeline", o.Pipeline},
	} {
		if required.value == "" {
			return fault.Fatalf(classBadSink, "the sink's %s is empty: set it in the config", required.name)
		}
	}
	if err := o.checkMode(); err != nil {
		return err
	}
	if o.DeadLetters == o.Collection {
		return fault.Fatalf(classBadSink, "documents and dead letters both go to collection %q: name another one for dead letters", o.Collection)
	}
	// A dotted name would be a path in the projection that reads guards, and find nothing.
	if strings.ContainsAny(o.GuardField, ".$") || o.GuardField == idField {
		return fault.Fatalf(classBadSink, "the guard cannot be stored in a field %q: use a name without \".\" and \"$\" that is not _id", o.GuardField)
	}
	return nil
}

func (o Options) checkMode() error {
	switch {
	case o.Mode != record.Insert && o.Mode != record.Upsert && o.Mode != record.Update:
		return fault.Fatalf(classBadSink, "the sink's mode is %q: expected insert, upsert or update", o.Mode)
	case !o.Deletes:
		return nil
	case o.Mode == record.Insert:
		return fault.Fatalf(classBadSink, "the sink has deletions in mode insert, which deletes nothing: set mode to upsert or update, or "+
			"tombstones to another value than delete")
	case o.TombstoneRetention < 0:
		return fault.Fatalf(classBadSink, "the sink's tombstoneRetention is %v: expected a time above 0", o.TombstoneRetention)
	case o.DeadLetters == o.deleted():
		return fault.Fatalf(classBadSink, "dead letters and the guards of deleted keys both go to collection %q: name another one for dead letters",
			o.DeadLetters)
	}
	return nil
}

// actions are what the user needs, beside find on config.collections where mode is keyed and the cluster is sharded.
func (o Options) actions() string {
	switch {
	case o.Deletes:
		return "find, insert, update, remove, createIndex and listCollections (on a sharded cluster also find on config.collections)"
	case o.Mode == record.Upsert || o.Mode == record.Update:
		return "find, insert, update and listCollections (on a sharded cluster also find on config.collections)"
	default:
		return "find, insert and listCollections"
	}
}

// parse checks the URI without a look-up or a connection, and returns the hosts for messages.
func (o Options) parse() (hosts, password string, err error) {
	parsed := options.Client().ApplyURI(offline(o.URI))
	err = parsed.Validate()
	if err != nil {
		return "", "", fault.Fatalf(classBadURI, "the MongoDB URI is not valid%s: expected "+
			"mongodb://user:password@host:27017/?options or mongodb+srv://..., with percent-encoding in user and password", whyNot(o.URI, err))
	}
	// Commands carry majority themselves, so whatever else the URI asks for would be ignored in silence.
	if wc := parsed.WriteConcern; wc != nil {
		weakJournal := wc.Journal != nil && !*wc.Journal
		if (wc.W != nil && wc.W != "majority") || weakJournal {
			return "", "", fault.Fatalf(classWeakWriteConcern, "the MongoDB URI asks for a write concern other than majority (w=%v, "+
				"journal off: %t): a write that is rolled back behind a moved checkpoint is lost; remove it from the URI", wc.W, weakJournal)
		}
	}
	if parsed.Auth != nil {
		password = parsed.Auth.Password
	}
	return strings.Join(parsed.Hosts, ","), password, nil
}

const srvScheme = "mongodb+srv://"

// offline turns a mongodb+srv URI, which the driver resolves by DNS as soon as it parses it, into one that has the same
// parts and needs no look-up. Options that only the other scheme knows are left out.
func offline(uri string) string {
	rest, ok := strings.CutPrefix(uri, srvScheme)
	if !ok {
		return uri
	}
	rest, query, _ := strings.Cut(rest, "?")
	var kept []string
	for option := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(strings.ToLower(option), "=")
		if name != "" && name != "srvmaxhosts" && name != "srvservicename" {
			kept = append(kept, option)
		}
	}
	if !strings.Contains(rest, "/") {
		rest += "/"
	}
	return "mongodb://" + rest + "?" + strings.Join(kept, "&")
}

// whyNot returns the driver's reason, unless a word of it may be a part of the URI and so of the credentials.
func whyNot(uri string, err error) string {
	reason := err.Error()
	separators := func(r rune) bool { return strings.ContainsRune(":/@?&=,% \"", r) }
	said := map[string]bool{}
	for word := range strings.FieldsFuncSeq(reason, separators) {
		said[word] = true
	}
	unescaped, escapeErr := url.PathUnescape(uri)
	if escapeErr != nil {
		unescaped = uri
	}
	for _, form := range []string{uri, unescaped} {
		for word := range strings.FieldsFuncSeq(form, separators) {
			if said[word] && word != "mongodb" && word != "mongodb+srv" {
				return ""
			}
		}
	}
	return " (" + reason + ")"
}

// clientOptions are what the client is made of: the URI, and what is ours. A mongodb+srv host is looked up here.
func (o Options) clientOptions() *options.ClientOptions {
	c := options.Client().ApplyURI(o.URI)
	if c.ServerSelectionTimeout == nil || *c.ServerSelectionTimeout > selectionTimeout {
		c.SetServerSelectionTimeout(selectionTimeout)
	}
	if c.AppName == nil {
		c.SetAppName("tidemark")
	}
	if o.PoolMonitor != nil {
		c.SetPoolMonitor(o.PoolMonitor)
	}
	return c
}

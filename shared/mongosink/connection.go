package mongosink

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// opening is a client on its way. Its result may be read once done is closed.
type opening struct {
	done   chan struct{}
	cancel context.CancelFunc
	client *mongo.Client
	err    error
}

// connect returns the client, whose collections have been inspected. The driver looks a mongodb+srv host up without a
// context, which may take longer than the caller has. So one goroutine opens the client for all, and each caller waits
// for as long as it can. Only a success is kept: what fails now may succeed at the next write.
func (s *Sink) connect(ctx context.Context) (*mongo.Client, error) {
	s.mu.Lock()
	if client := s.client; client != nil {
		s.mu.Unlock()
		return client, nil
	}
	o := s.opening
	if o == nil {
		shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
		o = &opening{done: make(chan struct{}), cancel: cancel}
		s.opening = o
		go s.open(shared, o)
	}
	s.mu.Unlock()
	select {
	case <-o.done:
		return o.client, o.err
	case <-ctx.Done():
		return nil, fault.Transientf("waiting for MongoDB at %s: %w", s.hosts, ctx.Err())
	}
}

func (s *Sink) open(ctx context.Context, o *opening) {
	defer o.cancel()
	client, err := mongo.Connect(s.options.clientOptions())
	if err != nil {
		err = fault.Transientf("resolving MongoDB at %s: %s: check the host name and that DNS answers", s.hosts, s.redacted(err))
	} else {
		err = s.inspect(ctx, client)
	}
	s.mu.Lock()
	switch {
	case s.opening != o:
		err = fault.Transientf("connecting to MongoDB at %s: closed meanwhile", s.hosts)
	case err == nil:
		s.client, s.opening = client, nil
	default:
		s.opening = nil
	}
	s.mu.Unlock()
	if o.err = err; err == nil {
		o.client = client
	}
	close(o.done)
	if err != nil && client != nil {
		discard(ctx, client)
	}
}

// leaveTimeout bounds what is only politeness towards the server, after the work is over or has failed.
const leaveTimeout = time.Second

// discard ends a client that nobody uses. That it could not say goodbye changes nothing.
func discard(ctx context.Context, client *mongo.Client) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = client.Disconnect(bounded)
}

// Close closes the connections, if there are any, and gives up those that are on their way. A write after it opens new
// ones.
func (s *Sink) Close(ctx context.Context) error {
	s.mu.Lock()
	client, o := s.client, s.opening
	s.client, s.opening = nil, nil
	s.mu.Unlock()
	if o != nil {
		o.cancel()
	}
	if client == nil {
		return nil
	}
	if err := client.Disconnect(ctx); err != nil {
		return fault.Transientf("closing the connections to MongoDB at %s: %w", s.hosts, err)
	}
	return nil
}

// inspect refuses collections that cannot keep what Write and Bury promise, which rests on an _id that is unique byte
// by byte and on documents that stay. It costs one command for each client, since a collection keeps these properties
// for as long as it exists. One that does not exist is created by the first insert, without any of them.
func (s *Sink) inspect(ctx context.Context, client *mongo.Client) error {
	bounded, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	names := bson.A{s.options.Collection, s.options.DeadLetters}
	if s.options.Deletes {
		names = append(names, s.options.deleted())
	}
	found, err := client.Database(s.options.Database).ListCollectionSpecifications(bounded,
		bson.D{{Key: "name", Value: bson.D{{Key: "$in", Value: names}}}})
	if err != nil {
		return s.failed(ctx, "listing the collections "+s.options.Collection+" and "+s.options.DeadLetters+" of "+s.options.Database, err)
	}
	for _, c := range found {
		what := unfit(c)
		if what == "" {
			continue
		}
		setting := "sink.collection"
		if c.Name == s.options.DeadLetters {
			setting = "deadLetters.collection"
		}
		return fault.Fatalf(classNamespace, "%s.%s is %s: name an ordinary collection in %s, or one that does not exist yet",
			s.options.Database, c.Name, what, setting)
	}
	if s.options.Mode == record.Insert {
		return nil
	}
	return s.inspectSharding(bounded, client)
}

// unfit says what a collection is that cannot be written to safely, "" for one that can.
func unfit(c mongo.CollectionSpecification) string {
	switch c.Type {
	case "collection":
	case "view":
		return "a view, which cannot be written to"
	case "timeseries":
		return "a time-series collection, whose _id is not unique, so that a record which is sent again is stored twice"
	default:
		return "of type " + c.Type + ", of which is not known whether its _id is unique"
	}
	if capped, _ := c.Options.Lookup("capped").BooleanOK(); capped {
		return "a capped collection, which drops its oldest documents"
	}
	locale, ok := c.Options.Lookup("collation", "locale").StringValueOK()
	if ok && locale != "simple" {
		return "a collection with the default collation " + locale + ", which may take the _id of one record for that of another"
	}
	return ""
}

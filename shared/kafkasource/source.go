package kafkasource

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/record"
)

// keyMetadata is the API key of Metadata requests in the Kafka protocol.
const keyMetadata = 3

// Source reads one pipeline's topics. It is safe for concurrent use and meant to be kept between runs.
type Source struct {
	opts         Options
	client       *kgo.Client
	decompressor kgo.Decompressor
	connects     *connectHook

	mu   sync.Mutex
	view view // as last asked for
}

// New makes a source. It talks to nobody: Kafka is first asked by Bounds or Open.
func New(o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	connects := &connectHook{}
	client, err := kgo.NewClient(o.client(connects)...)
	if err != nil {
		return nil, configError(err)
	}
	s := &Source{opts: o, client: client, connects: connects}
	// The client's decompressor is bounded by MaxDecompressBatchBytes; the one of kgo.DefaultDecompressor is not.
	s.decompressor, _ = client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if s.decompressor == nil {
		client.Close()
		return nil, configError(fmt.Errorf("finding the client's decompressor"))
	}
	return s, nil
}

// Close closes the connections. Readers end with an error.
func (s *Source) Close() { s.client.Close() }

func (s *Source) isolation() int8 {
	if s.opts.ReadUncommitted {
		return isolationUncommitted
	}
	return isolationCommitted
}

// The isolation levels as they stand in ListOffsets and Fetch requests.
const (
	isolationUncommitted int8 = 0
	isolationCommitted   int8 = 1
)

// view is what one metadata answer said.
type view struct {
	cluster string
	topics  map[string]topicView
}

type topicView struct {
	id         [16]byte // zero from brokers before 2.8
	internal   bool
	err        error // nil, or what Kafka answered in place of partitions
	partitions map[int32]home
}

// home is where a partition is led.
type home struct {
	leader int32 // none below 0
	epoch  int32
}

// idText returns the topic id as Kafka's tools print it, "" where there is none.
func (t topicView) idText() string {
	if t.id == ([16]byte{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(t.id[:])
}

// TopicIDs returns the ids of the topics in one Metadata request. A topic that Kafka does not know, or that it does not
// tell of now, is left out; the id is "" from a broker that tells none. Errors are those of Bounds.
func (s *Source) TopicIDs(ctx context.Context, topics []string) (map[string]string, error) {
	ids := make(map[string]string, len(topics))
	if len(topics) == 0 {
		return ids, nil
	}
	const doing = "asking for the ids of the topics"
	s.connects.forgive()
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	latest, err := s.metadata(asking, topics)
	if err != nil {
		return nil, s.explain(ctx, doing, err)
	}
	for _, name := range topics {
		topic, ok := latest.topics[name]
		switch {
		case !ok:
		case topic.err == nil || topic.id != [16]byte{}: // without a leader it has its id all the same
			ids[name] = topic.idText()
		default:
			if fatal := s.refused(doing, topic.err); fatal != nil {
				return nil, fatal
			}
		}
	}
	return ids, nil
}

// metadata asks for the metadata of the topics, of all there are where topics is nil. It creates none.
func (s *Source) metadata(ctx context.Context, topics []string) (view, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return view{}, fmt.Errorf("asking for metadata: %w", err)
	}
	v := view{topics: make(map[string]topicView, len(resp.Topics))}
	if resp.ClusterID != nil {
		v.cluster = *resp.ClusterID
	}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		tv := topicView{
			id: t.TopicID, internal: t.IsInternal, err: kerr.ErrorForCode(t.ErrorCode), partitions: make(map[int32]home, len(t.Partitions)),
		}
		for _, p := range t.Partitions {
			// An error beside a leader (a replica is down) does not matter to a reader.
			tv.partitions[p.Partition] = home{leader: p.Leader, epoch: p.LeaderEpoch}
		}
		v.topics[*t.Topic] = tv
	}
	return v, nil
}

// keep remembers the view for the next readers.
func (s *Source) keep(v view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = v
}

func (s *Source) lastView() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// assigned tells whether the pipeline reads the partition at all.
func (s *Source) assigned(p record.Partition) bool {
	if len(s.opts.Assign) == 0 {
		return true
	}
	for _, id := range s.opts.Assign[p.Topic] {
		if id == p.ID {
			return true
		}
	}
	return false
}

package kafkasource

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/shared/record"
)

// The special timestamps of ListOffsets.
const (
	timestampLatest   int64 = -1
	timestampEarliest int64 = -2
)

// ask is one question about one partition.
type ask struct {
	partition record.Partition
	home
	timestamp int64
}

// offsets has no entry for a partition that got no answer. The answer to a timestamp that nothing is newer than is -1.
type offsets map[record.Partition]int64

// listOffsets sends one ListOffsets request to each leader at the same time. Partitions that a broker refuses to answer
// for are missing in the result; the error is of requests that failed as a whole, and of missing ACLs.
func (s *Source) listOffsets(ctx context.Context, isolation int8, asks []ask) (offsets, error) {
	byLeader := map[int32][]ask{}
	for _, a := range asks {
		byLeader[a.leader] = append(byLeader[a.leader], a)
	}
	var (
		mu    sync.Mutex
		found = offsets{}
		errs  []error
		wg    sync.WaitGroup
	)
	for leader, asks := range byLeader {
		wg.Go(func() {
			answers, err := s.askLeader(ctx, leader, isolation, asks)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(found, answers)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	// A refusal decides before what may pass.
	slices.SortStableFunc(errs, func(a, b error) int {
		switch fa, fb := s.refused("", a) != nil, s.refused("", b) != nil; {
		case fa == fb:
			return 0
		case fa:
			return -1
		}
		return 1
	})
	if len(errs) > 0 {
		return found, errs[0]
	}
	return found, nil
}

func (s *Source) askLeader(ctx context.Context, leader int32, isolation int8, asks []ask) (offsets, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	index := map[string]int{}
	for _, a := range asks {
		i, ok := index[a.partition.Topic]
		if !ok {
			i = len(req.Topics)
			index[a.partition.Topic] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = a.partition.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = a.partition.ID, a.epoch, a.timestamp
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	kresp, err := s.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err //nolint:wrapcheck // the callers say what was asked for
	}
	resp, ok := kresp.(*kmsg.ListOffsetsResponse)
	if !ok {
		return nil, errors.New("the client answered ListOffsets with something else")
	}
	found := offsets{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			switch err := kerr.ErrorForCode(p.ErrorCode); {
			case err == nil:
				found[record.Partition{Topic: t.Topic, ID: p.Partition}] = p.Offset
			case errors.Is(err, kerr.TopicAuthorizationFailed):
				return nil, err //nolint:wrapcheck // as above
			}
		}
	}
	return found, nil
}

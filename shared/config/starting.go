package config

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/shared/record"
)

const startingForms = "earliest, latest, none, {timestamp: 2026-01-01T00:00:00Z} or offsets such as {orders: {0: 250, 1: -2}}"

// startingOffsets reads startingOffsets: a word, a timestamp, or Spark's offsets as a mapping or as JSON text.
func startingOffsets() parser[record.StartingOffsets] {
	return parser[record.StartingOffsets]{form: startingForms, show: startingText, parse: parseStarting}
}

func parseStarting(v value) (record.StartingOffsets, bool) {
	if v.structured() || strings.HasPrefix(strings.TrimSpace(v.text), "{") {
		return startingMapping(v)
	}
	word, ok := v.scalar("one of "+startingForms, "!!str")
	if !ok {
		return record.StartingOffsets{}, false
	}
	switch mode := record.StartMode(word); mode {
	case record.StartEarliest, record.StartLatest, record.StartNone:
		return record.StartingOffsets{Mode: mode}, true
	case record.StartTimestamp, record.StartOffsets:
	}
	v.fail("%s is none of %s", v.shown(), startingForms)
	return record.StartingOffsets{}, false
}

func startingMapping(v value) (record.StartingOffsets, bool) {
	entries, ok := v.mapping("one of " + startingForms)
	if !ok {
		return record.StartingOffsets{}, false
	}
	offsets := map[record.Partition]int64{}
	for key, entry := range entries {
		if key == "timestamp" && !entry.structured() {
			return startingTimestamp(v, entry)
		}
		if entry.bad || !topicOffsets(key, entry, offsets) {
			ok = false
		}
	}
	if ok && len(offsets) == 0 {
		v.fail("names no offsets: write %s", startingForms)
		return record.StartingOffsets{}, false
	}
	return record.StartingOffsets{Mode: record.StartOffsets, Offsets: offsets}, ok
}

func startingTimestamp(v, entry value) (record.StartingOffsets, bool) {
	none := record.StartingOffsets{}
	entries, ok := v.mapping(startingForms)
	if !ok || entry.bad {
		return none, false
	}
	for key := range entries {
		if key != "timestamp" {
			v.fail("has other keys beside timestamp")
			return none, false
		}
	}
	s, ok := entry.scalar("a time such as 2026-01-01T00:00:00Z", "!!timestamp", "!!str")
	if !ok {
		return none, false
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		entry.fail("%s is no time such as 2026-01-01T00:00:00Z", entry.shown())
		return none, false
	}
	// Kafka's ListOffsets gives negative timestamps other meanings: -1 is the latest offset.
	if at.Before(time.UnixMilli(0)) {
		entry.fail("%s is before 1970", entry.shown())
		return none, false
	}
	return record.StartingOffsets{Mode: record.StartTimestamp, Timestamp: at.UTC()}, true
}

// topicOffsets adds the offsets of one topic.
func topicOffsets(topic string, v value, offsets map[record.Partition]int64) bool {
	if wrong := topicName(topic); wrong != "" {
		v.fail("the topic %s", wrong)
		return false
	}
	entries, ok := v.mapping("the offsets of a topic, such as {0: 250, 1: -2}")
	if !ok {
		return false
	}
	for key, entry := range entries {
		id, valid := partitionID(key)
		if !valid {
			entry.fail("is no partition number")
			ok = false
			continue
		}
		offset, valid := whole[int64](record.OffsetEarliest, math.MaxInt64).parse(entry)
		if entry.bad || !valid {
			ok = false
			continue
		}
		partition := record.Partition{Topic: topic, ID: id}
		if _, twice := offsets[partition]; twice {
			entry.fail("stands twice")
			ok = false
		}
		offsets[partition] = offset
	}
	return ok
}

func partitionID(s string) (int32, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int32(n), err == nil && !leadingZero.MatchString(s)
}

// startingText spells startingOffsets in one way, so that two texts are equal when they mean the same.
func startingText(s record.StartingOffsets) string {
	var form any
	switch s.Mode {
	case record.StartEarliest, record.StartLatest, record.StartNone:
		return string(s.Mode)
	case record.StartTimestamp:
		form = map[string]string{"timestamp": s.Timestamp.Format(time.RFC3339Nano)}
	case record.StartOffsets:
		topics := map[string]map[int32]int64{}
		for partition, offset := range s.Offsets {
			if topics[partition.Topic] == nil {
				topics[partition.Topic] = map[int32]int64{}
			}
			topics[partition.Topic][partition.ID] = offset
		}
		form = topics
	}
	text, err := json.Marshal(form)
	if err != nil {
		return "" // maps of strings and numbers always have a JSON form
	}
	return string(text)
}

// assign reads the partitions of each topic, as a mapping or as Spark's JSON text.
func assign() parser[map[string][]int32] {
	return parser[map[string][]int32]{form: "partitions such as {orders: [0, 1]}", parse: parseAssign}
}

func parseAssign(v value) (map[string][]int32, bool) {
	entries, ok := v.mapping("the partitions of topics, such as {orders: [0, 1]}")
	if !ok {
		return nil, false
	}
	topics := map[string][]int32{}
	for topic, entry := range entries {
		if wrong := topicName(topic); wrong != "" {
			entry.fail("the topic %s", wrong)
			ok = false
			continue
		}
		partitions, valid := list(1, whole[int32](0, math.MaxInt32)).parse(entry)
		topics[topic], ok = partitions, ok && valid && !entry.bad
	}
	if ok && len(topics) == 0 {
		v.fail("names no topic")
		return nil, false
	}
	return topics, ok
}

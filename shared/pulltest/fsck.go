package pulltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tidemark/tidemark/shared/pull"
	"github.com/tidemark/tidemark/shared/record"
)

// Fsck decides whether the promises hold: every record behind the checkpoint is there exactly once, as its document or
// as its dead letter, and nothing is there that is no record. Records above the checkpoint may have been written ahead.
// It reads the whole log anew and converts it, so it trusts nothing of the run. The answer is one line a problem.
func Fsck(ctx context.Context, source pull.Source, converter pull.Converter, stored *MemSink, checkpoint record.Checkpoint) ([]string, error) {
	all, topicIDs, err := wholeLog(ctx, source)
	if err != nil {
		return nil, err
	}
	done := map[record.Partition]int64{}
	for partition, position := range checkpoint.Offsets {
		done[partition] = position.Offset
	}
	f := fsck{documents: map[string]int{}, letters: map[string]int{}}
	for _, doc := range stored.Documents() {
		f.documents[string(doc)]++
	}
	for _, letter := range stored.Letters() {
		f.letters[coordinates(letter.Record, letter.Incarnation)]++
	}
	reader := source.Open(ctx, all, topicIDs)
	defer reader.Close()
	for {
		batch, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the log: %w", err)
		}
		topic := checkpoint.Topics[batch.Partition.Topic]
		for _, rec := range batch.Records {
			f.look(rec, topic, converter, rec.Offset < done[rec.Partition])
		}
	}
	f.leftovers()
	slices.Sort(f.problems)
	return f.problems, nil
}

// wholeLog returns the ranges of everything that can be read, and the ids of its topics.
func wholeLog(ctx context.Context, source pull.Source) ([]record.Range, map[string]string, error) {
	log, err := source.Bounds(ctx, record.BoundsQuery{Lanes: 1})
	if err != nil {
		return nil, nil, fmt.Errorf("asking for the log's bounds: %w", err)
	}
	var all []record.Range
	topicIDs := map[string]string{}
	for name, topic := range log.Topics {
		topicIDs[name] = topic.ID
		for id, bounds := range topic.Partitions {
			if bounds.End > bounds.Start {
				all = append(all, record.Range{Partition: record.Partition{Topic: name, ID: id}, From: bounds.Start, To: bounds.End})
			}
		}
	}
	slices.SortFunc(all, func(a, b record.Range) int { return a.Partition.Compare(b.Partition) })
	return all, topicIDs, nil
}

// fsck is what is stored and not yet explained by a record.
type fsck struct {
	documents map[string]int
	letters   map[string]int
	problems  []string
}

func coordinates(rec record.Record, incarnation int64) string {
	return fmt.Sprintf("%s@%d/%d/%d", rec.Partition.Topic, incarnation, rec.Partition.ID, rec.Offset)
}

// look takes what one record explains, and complains where it is not there exactly once.
func (f *fsck) look(rec record.Record, topic record.Topic, converter pull.Converter, behind bool) {
	at := coordinates(rec, topic.Incarnation)
	documents := 0
	if write, err := converter.Convert(&record.Arena{}, rec, topic); err == nil {
		document := string(bytes.Clone(write.Document))
		documents = f.documents[document]
		delete(f.documents, document)
	}
	letters := f.letters[at]
	delete(f.letters, at)
	switch found := documents + letters; {
	case found == 0 && behind:
		f.problems = append(f.problems, "missing: "+at)
	case found > 1:
		f.problems = append(f.problems, fmt.Sprintf("doubled: %s is stored %d times", at, found))
	}
}

func (f *fsck) leftovers() {
	for document := range f.documents {
		f.problems = append(f.problems, fmt.Sprintf("different: a document of %d bytes is of no record", len(document)))
	}
	for at := range f.letters {
		f.problems = append(f.problems, "different: a dead letter is of no record: "+at)
	}
}

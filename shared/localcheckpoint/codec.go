package localcheckpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/record"
)

// encode returns the text of a lane document. The same document always has the same text: the revision is its hash.
func encode(doc record.Checkpoint, report json.RawMessage) ([]byte, error) {
	stored := fromCheckpoint(doc)
	stored.Run = report
	return marshal(stored)
}

// decode reads the text of a lane document. It is strict, because the file is
// edited by people: a name that was mistyped, or a field that was deleted, would else be a silent zero.
func decode(name string, text []byte) (record.Checkpoint, error) {
	var stored document
	if err := decodeStrictly(name, text, &stored); err != nil {
		return record.Checkpoint{}, err
	}
	stored.Schema = record.Schema
	doc, err := stored.checkpoint()
	if err == nil {
		err = doc.Check()
	}
	if err != nil {
		return record.Checkpoint{}, corrupt(name, err)
	}
	return doc, nil
}

// added are the fields that a schema brought, in the form that stands for nothing. Documents of older schemas get them
// when they are read.
func added(schema int, into any) map[string]any {
	if schema > 1 {
		return nil
	}
	none := map[string]any{"by": "", "lanes": 0.0, "layout": 0.0}
	if _, ok := into.(*pipelineDocument); ok {
		return map[string]any{"draining": none, "audits": 0.0}
	}
	return map[string]any{"draining": none}
}

// decodeStrictly fills a document of this or an older schema. Every field of its schema must be there, and no other.
func decodeStrictly(name string, text []byte, into any) error {
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return corrupt(name, where(text, err))
	}
	if version.Schema > record.Schema {
		return fault.Fatalf("newer-schema", "%s has schema %d, this version reads up to %d: deploy the newer version, which wrote it",
			name, version.Schema, record.Schema)
	}
	if version.Schema < 1 {
		return corrupt(name, fmt.Errorf("schema %d never existed", version.Schema))
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into); err != nil {
		return corrupt(name, where(text, fmt.Errorf("reading the document: %w", err)))
	}
	if _, err := strict.Token(); !errors.Is(err, io.EOF) {
		return corrupt(name, errors.New("something follows the document"))
	}
	// What would be written again must be there to begin with: encoding/json leaves fields at zero without a word.
	canonical, err := marshal(into)
	if err != nil {
		return err
	}
	var want, got map[string]any
	if err := errors.Join(json.Unmarshal(canonical, &want), json.Unmarshal(text, &got)); err != nil {
		return corrupt(name, fmt.Errorf("reading the document: %w", err))
	}
	delete(want, "run") // the report may be of another version
	for field, none := range added(version.Schema, into) {
		if _, ok := got[field]; ok {
			return corrupt(name, fmt.Errorf("%s is not of schema %d", field, version.Schema))
		}
		got[field] = none
	}
	if err := complete(want, got, ""); err != nil {
		return corrupt(name, err)
	}
	return nil
}

// complete returns an error naming the first field of want that got lacks or has in another JSON type.
func complete(want, got any, path string) error {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is no object", path)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if _, ok := have[name]; !ok {
				return fmt.Errorf("%s is missing", strings.TrimPrefix(path+"."+name, "."))
			}
			if err := complete(want[name], have[name], strings.TrimPrefix(path+"."+name, ".")); err != nil {
				return err
			}
		}
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Errorf("%s is no list", path)
		}
		for i := range want {
			if err := complete(want[i], have[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	default:
		if got == nil {
			return fmt.Errorf("%s is null", path)
		}
	}
	return nil
}

func marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // people read it
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		return nil, fault.Fatalf("checkpoint-unwritable", "encoding a checkpoint document: %w", err)
	}
	return text.Bytes(), nil
}

// where adds the line to an error of encoding/json that has a position.
func where(text []byte, err error) error {
	var offset int64
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = wrong.Offset
	}
	if offset <= 0 || offset > int64(len(text)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:offset], []byte("\n")), err)
}

func corrupt(name string, err error) error {
	return fault.Fatalf("checkpoint-corrupt",
		"%s cannot be read as a checkpoint: %w; correct it in an editor or restore it from a backup", name, err)
}

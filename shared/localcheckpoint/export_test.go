package localcheckpoint

import "context"

// What the external tests need of the package; they are external because package pulltest may import this one.
var (
	Decode = decode
	Encode = encode

	DecodePipeline = decodePipeline
	EncodePipeline = encodePipeline
)

// Remove, Write, Read and List reach the files of a store behind its back.
func (s *store) Remove(name string) error                { return s.folder.remove(name) }
func (s *store) Write(name string, content []byte) error { return s.folder.write(name, content) }
func (s *store) Read(name string) ([]byte, error)        { return s.folder.read(name) }
func (s *store) List(sub string) ([]string, error)       { return s.folder.list(sub) }

// JournalFile is the name of the journal, and Journal its text for an edit.
const JournalFile = journalFile

func Journal(files map[string][]byte) ([]byte, error) {
	edit := journal{}
	for name, content := range files {
		edit[name] = nil
		if content != nil {
			text := string(content)
			edit[name] = &text
		}
	}
	return marshal(edit)
}

// Lock takes the lock of a store as a writer does.
func (s *store) Lock(ctx context.Context) (func(), error) { return s.folder.lock(ctx) }

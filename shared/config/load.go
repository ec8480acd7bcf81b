package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tidemark/tidemark/shared/fault"
)

// badConfig is the class of every Fatal error of Load.
const badConfig = "bad-config"

// The variables that say where the configuration is.
const (
	pathVariable   = prefix + "CONFIG"
	inlineVariable = prefix + "CONFIG_INLINE"
)

// SecretGetter returns the content of a secret version, named projects/P/secrets/S/versions/N. Its errors carry a kind
// of package fault and never the content.
type SecretGetter func(ctx context.Context, name string) ([]byte, error)

// Env is the world that Load reads.
type Env struct {
	// Environ holds NAME=value, as os.Environ returns it.
	Environ  []string
	ReadFile func(path string) ([]byte, error)
	// Secret is called for secret:// references only. Nil refuses them.
	Secret SecretGetter
}

// OS returns the world of this process.
func OS(secret SecretGetter) Env {
	return Env{Environ: os.Environ(), ReadFile: os.ReadFile, Secret: secret}
}

// Load reads and checks the configuration of a pipeline. Its error lists every problem, one a line; it is Fatal with
// the class "bad-config", or Transient if nothing is wrong but secrets that could not be fetched just now.
func Load(ctx context.Context, env Env) (Config, error) {
	l := newLoader(ctx, env)
	for _, pair := range env.Environ {
		if name, text, ok := strings.Cut(pair, "="); ok {
			l.vars[name] = text
		}
	}
	text, err := l.find()
	if err != nil {
		return Config{}, err
	}
	node, err := parseYAML(text)
	if err != nil {
		line, message := syntaxError(err)
		l.report(origin{line: line}, "", "", message)
		return Config{}, l.failure()
	}
	root := l.section("", 1, node)
	cfg := readConfig(root)
	l.check(cfg)
	l.reportUnknown()
	if err := l.failure(); err != nil {
		return Config{}, err
	}
	cfg.Notices = l.notices
	return cfg, nil
}

// find returns the text of the file, and notes what errors call it and where its relative paths start.
func (l *loader) find() (string, error) {
	path, inline := l.vars[pathVariable], l.vars[inlineVariable]
	switch {
	case path != "" && inline != "":
		return "", fault.Fatalf(badConfig, "%s and %s are both set: keep one", pathVariable, inlineVariable)
	case inline != "":
		l.file = inlineVariable
		return inline, nil
	case path == "":
		return "", fault.Fatalf(badConfig, "no configuration: set %s to the path of a file like config.example.yaml, or %s to its text%s",
			pathVariable, inlineVariable, l.misspelt())
	}
	if strings.Contains(path, "\n") {
		return "", fault.Fatalf(badConfig, "%s holds a text, not a path: put it in %s", pathVariable, inlineVariable)
	}
	l.file, l.dir = path, filepath.Dir(path)
	text, err := l.readFile(filepath.Base(path))
	if err != nil {
		return "", fault.Fatalf(badConfig, "%s: %w", pathVariable, err)
	}
	return text, nil
}

// misspelt points at a variable whose name is nearly that of one that says where the configuration is.
func (l *loader) misspelt() string {
	for _, name := range slices.Sorted(maps.Keys(l.vars)) {
		if nearest := nearestOf(name, []string{pathVariable, inlineVariable}); nearest != "" && name != nearest {
			return fmt.Sprintf("; %s is set: did you mean %s?", name, nearest)
		}
	}
	return ""
}

// parseYAML returns the one document of a text, nil for an empty text.
func parseYAML(text string) (node *yaml.Node, err error) {
	// The parser has panics of its own for states that it holds impossible ("internal error ... please report").
	defer func() {
		if recover() != nil {
			node, err = nil, errors.New("yaml: the text cannot be read")
		}
	}()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, next yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil // an empty text has no document and is no error
		}
		return nil, fmt.Errorf("parsing: %w", err)
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("yaml: line %d: the text must end after one document", max(next.Line, 1))
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	return document.Content[0], nil
}

var yamlError = regexp.MustCompile(`yaml: (?:line (\d+): )?(.*)`)

// syntaxError takes the parser's error apart. Its texts are fixed, but for the name of an unknown anchor: a password
// that begins with * is one.
func syntaxError(err error) (line int, message string) {
	line, message = 1, "not readable as YAML"
	if parts := yamlError.FindStringSubmatch(err.Error()); parts != nil {
		if n, err := strconv.Atoi(parts[1]); err == nil {
			line = n
		}
		message += ": " + parts[2]
	}
	if strings.Contains(message, "anchor") {
		return 0, "not readable as YAML: a value begins with * or &: put it in quotes"
	}
	return line, message
}

package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tidemark/tidemark/shared/fault"
)

// The schemes of references.
const (
	secretScheme = "secret://"
	envScheme    = "env://"
	fileScheme   = "file://"
)

// content is what a reference came to. It is kept for one Load: the same secret may stand in several places.
type content struct {
	text string
	err  error
}

func isReference(text string) bool {
	return strings.HasPrefix(text, secretScheme) || strings.HasPrefix(text, envScheme) || strings.HasPrefix(text, fileScheme)
}

// content returns what a reference stands for, without the newline at its end. A reference in it is not followed.
func (l *loader) content(reference string) (string, error) {
	found, known := l.contents[reference]
	if !known {
		found.text, found.err = l.fetch(reference)
		found.text = strings.TrimSuffix(strings.TrimSuffix(found.text, "\n"), "\r")
		l.contents[reference] = found
	}
	return found.text, found.err
}

// secretName is the name of a pinned version: "latest" would change a pipeline without anybody having changed it.
var secretName = regexp.MustCompile(`^projects/[^/]+/secrets/[^/]+/versions/[0-9]+$`)

func (l *loader) fetch(reference string) (string, error) {
	if name, ok := strings.CutPrefix(reference, envScheme); ok {
		text, set := l.vars[name]
		if !set {
			return "", fault.Fatalf(badConfig, "the environment variable %s of the reference is not set", quoted(name))
		}
		return text, nil
	}
	if path, ok := strings.CutPrefix(reference, fileScheme); ok {
		return l.readFile(path)
	}
	name := strings.TrimPrefix(reference, secretScheme)
	if !secretName.MatchString(name) {
		return "", fault.Fatalf(badConfig, "the reference must look like secret://projects/P/secrets/S/versions/7, with the number of a version")
	}
	if l.env.Secret == nil {
		return "", fault.Fatalf(badConfig, "secret:// references need a secret store, and there is none here: use env:// or file://")
	}
	text, err := l.env.Secret(l.ctx, name)
	if err != nil {
		return "", err
	}
	return string(text), nil
}

// readFile reads a file that the configuration names. A relative path starts at the configuration's own folder.
func (l *loader) readFile(path string) (string, error) {
	if strings.HasPrefix(path, "~") {
		return "", fault.Fatalf(badConfig, "the path %s begins with ~, which no shell expands here: write the folder out", quoted(path))
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.dir, path)
	}
	text, err := l.env.ReadFile(path)
	if err == nil {
		return string(text), nil
	}
	// The error of package os repeats the path without a bound.
	if reason, ok := errors.AsType[*fs.PathError](err); ok {
		err = reason.Err
	}
	return "", fault.Fatalf(badConfig, "reading the file %s: %w", quoted(path), err)
}

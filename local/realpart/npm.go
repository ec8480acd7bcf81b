package realpart

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The npm package with real data: flights, movies and earthquakes, under licences that allow to use it
// (https://github.com/vega/vega-datasets).
const (
	datasetsPackage = "vega-datasets@3.2.1"
	datasetsFile    = "vega-datasets-3.2.1.tgz"
	datasetsSHA256  = "6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3"
	datasetMaxBytes = 64 << 20
)

// Datasets are the files of vega-datasets that are kept.
const (
	Flights     = "flights-200k.json"
	Movies      = "movies.json"
	Earthquakes = "earthquakes.json"
)

// Dataset returns the path of one of the Datasets, which npm fetches the first time.
func Dataset(ctx context.Context, name string) (string, error) {
	dir, err := cached(ctx, "vega-datasets-"+datasetsSHA256[:16], "data", fetchTimeout, fetchDatasets)
	if err != nil {
		return "", fmt.Errorf("the datasets of the tests were %w: %w", ErrNotFound, err)
	}
	return filepath.Join(dir, "data", name), nil
}

func fetchDatasets(ctx context.Context, dir string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("no npm to fetch them with; install Node.js")
	}
	pack := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts", datasetsPackage) //nolint:gosec // fixed words
	pack.Dir = dir
	if out, err := pack.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("fetching %s: %w: %s", datasetsPackage, err, lines[len(lines)-1])
	}
	archive := filepath.Join(dir, datasetsFile)
	if err := checkSHA256(archive, datasetsSHA256); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o750); err != nil {
		return fmt.Errorf("making the folder of the datasets: %w", err)
	}
	return unpackDatasets(archive, filepath.Join(dir, "data"))
}

func unpackDatasets(archive, to string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("opening the download: %w", err)
	}
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("reading the download: %w", err)
	}
	wanted := map[string]bool{Flights: true, Movies: true, Earthquakes: true}
	for files := tar.NewReader(zipped); ; {
		entry, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the download: %w", err)
		}
		name := filepath.Base(entry.Name)
		if !wanted[name] || entry.Size > datasetMaxBytes {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(files, datasetMaxBytes))
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			return fmt.Errorf("keeping %s: %w", name, err)
		}
		delete(wanted, name)
	}
	if len(wanted) > 0 {
		return fmt.Errorf("%s lacks %d of the datasets", datasetsPackage, len(wanted))
	}
	return nil
}

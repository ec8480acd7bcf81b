package realpart

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// fetchTimeout bounds the fetching of some 50 MB, also while another process does it.
const fetchTimeout = 5 * time.Minute

// cached returns the folder of that name in the user's cache. The first time fetch fills a temporary folder, of which
// the file or folder of the name what is kept. A lock keeps two processes from fetching at once; what is kept appears
// by a rename, so nobody ever sees half of it.
func cached(ctx context.Context, name, what string, timeout time.Duration, fetch func(ctx context.Context, dir string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "tidemark", name)
	kept := filepath.Join(dir, what)
	if _, err := os.Stat(kept); err == nil {
		return dir, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(kept); err == nil {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return "", fmt.Errorf("making a folder to fetch into: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // what is left of a folder that is ours alone
	if err := fetch(ctx, tmp); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(tmp, what), kept); err != nil {
		return "", fmt.Errorf("placing %s in the cache: %w", what, err)
	}
	return dir, nil
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

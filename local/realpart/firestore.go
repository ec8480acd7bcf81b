package realpart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	emulatorJar  = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
	emulatorMain = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
)

// FirestoreEmulator returns a Firestore emulator: the one of $FIRESTORE_EMULATOR_HOST, or one that is started from the
// jar of $TIDEMARK_FIRESTORE_JAR or of the Google Cloud SDK. It keeps nothing: Dir is not used.
func FirestoreEmulator(ctx context.Context, opts Options) (*Process, error) {
	if host := os.Getenv("FIRESTORE_EMULATOR_HOST"); host != "" {
		return running(ctx, "FIRESTORE_EMULATOR_HOST", &Process{Host: host}, host)
	}
	jar, err := findEmulatorJar(ctx)
	if err != nil {
		return nil, err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("java, which runs the Firestore emulator, %w: install Java 17 or later, or set "+
			"FIRESTORE_EMULATOR_HOST", ErrNotFound)
	}
	return retryStart(func() (*Process, error) { return startEmulator(ctx, java, jar, opts) })
}

// findEmulatorJar asks gcloud only where its link does not lead to the SDK: that question takes seconds.
func findEmulatorJar(ctx context.Context) (string, error) {
	if jar := os.Getenv("TIDEMARK_FIRESTORE_JAR"); jar != "" {
		if _, err := os.Stat(jar); err != nil { //nolint:gosec // the person who runs this names the file
			return "", fmt.Errorf("the Firestore emulator of TIDEMARK_FIRESTORE_JAR was %w: %w", ErrNotFound, err)
		}
		return jar, nil
	}
	gcloud, gcloudErr := exec.LookPath("gcloud")
	roots := []func() string{
		func() string {
			if real, err := filepath.EvalSymlinks(gcloud); err == nil {
				return filepath.Dir(filepath.Dir(real))
			}
			return ""
		},
		func() string { return "/usr/lib/google-cloud-sdk" },
		func() string {
			if gcloudErr != nil {
				return ""
			}
			out, err := exec.CommandContext(ctx, gcloud, "info", "--format=value(installation.sdk_root)").Output()
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(out))
		},
	}
	for _, root := range roots {
		dir := root()
		if dir == "" {
			continue
		}
		jar := filepath.Join(dir, filepath.FromSlash(emulatorJar))
		if _, err := os.Stat(jar); err == nil {
			return jar, nil
		}
	}
	return "", fmt.Errorf("the Firestore emulator was %w: run `gcloud components install cloud-firestore-emulator` (or "+
		"`apt-get install google-cloud-cli-firestore-emulator`), or set FIRESTORE_EMULATOR_HOST or TIDEMARK_FIRESTORE_JAR", ErrNotFound)
}

func startEmulator(ctx context.Context, java, jar string, opts Options) (*Process, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	// The flags halve the start-up: a small heap, and no second compiler for a process that lives for minutes.
	p, err := launch(opts, java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", jar, emulatorMain,
		"--host=127.0.0.1", "--port="+port)
	if err != nil {
		return nil, err
	}
	p.Host = "127.0.0.1:" + port
	if err := p.waitReady(ctx, "the Firestore emulator on "+p.Host, p.emulatorAnswers); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

func (p *Process) emulatorAnswers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Host+"/", http.NoBody)
	if err != nil {
		return fmt.Errorf("asking the emulator: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the emulator: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64))
	if err != nil {
		return fmt.Errorf("reading the emulator's answer: %w", err)
	}
	if res.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != "Ok" {
		return errors.New("the emulator does not answer Ok yet")
	}
	return nil
}

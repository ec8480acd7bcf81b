package realpart

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var (
	//go:embed kafka/pom.xml
	kafkaPOM []byte
	//go:embed kafka/jars.sha256
	kafkaJars []byte
)

// copyDependencies is the goal that puts a project's jars into a folder.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// downloadedKafka returns the folder of Apache Kafka's jars, which Maven fetches the first time.
func downloadedKafka(ctx context.Context) (string, error) {
	pinned := sha256.Sum256(kafkaJars)
	dir, err := cached(ctx, "kafka-"+hex.EncodeToString(pinned[:8]), "lib", fetchTimeout, fetchKafka)
	return filepath.Join(dir, "lib"), err
}

func fetchKafka(ctx context.Context, dir string) error {
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("no mvn to fetch it with")
	}
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), kafkaPOM, 0o600); err != nil {
		return fmt.Errorf("writing the project of Kafka: %w", err)
	}
	lib := filepath.Join(dir, "lib")
	mvn := exec.CommandContext(ctx, maven, "--batch-mode", "--quiet", copyDependencies, //nolint:gosec // fixed words
		"-DoutputDirectory="+lib, "-DincludeScope=runtime")
	mvn.Dir = dir
	if out, err := mvn.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("fetching Apache Kafka with mvn: %w: %s", err, lines[0])
	}
	return checkJars(lib)
}

// checkJars wants the jars that are pinned, and no other.
func checkJars(lib string) error {
	found, err := os.ReadDir(lib)
	if err != nil {
		return fmt.Errorf("looking at the jars of Kafka: %w", err)
	}
	pinned := 0
	for lines := bufio.NewScanner(bytes.NewReader(kafkaJars)); lines.Scan(); pinned++ {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		if err := checkSHA256(filepath.Join(lib, name), sum); err != nil {
			return err
		}
	}
	if pinned != len(found) {
		return fmt.Errorf("fetched %d jars of Apache Kafka, %d are pinned: they are not used", len(found), pinned)
	}
	return nil
}

package realpart

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const replicaSet = "rs0"

// Mongod returns a MongoDB that takes majority writes and transactions: the one of $MONGODB_URI, or a replica set of
// one member that is started from mongod on PATH or from the cached download. With a Dir that was used before it goes
// on with the data in it.
func Mongod(ctx context.Context, opts Options) (*Process, error) {
	if uri := os.Getenv("MONGODB_URI"); uri != "" {
		client := options.Client().ApplyURI(uri)
		if err := client.Validate(); err != nil {
			return nil, errors.New("MONGODB_URI is set and is no MongoDB URI") // its text may hold a password
		}
		return running(ctx, "MONGODB_URI", &Process{URI: uri}, client.Hosts...)
	}
	binary, err := mongodBinary(ctx)
	if err != nil {
		return nil, err
	}
	return retryStart(func() (*Process, error) { return startMongod(ctx, binary, opts) })
}

func mongodBinary(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("mongod"); err == nil {
		return path, nil
	}
	path, err := downloadedMongod(ctx)
	if err != nil {
		return "", fmt.Errorf("mongod %w: %w; set MONGODB_URI to a replica set, or install MongoDB 5.0 or later so that "+
			"mongod is on PATH (https://www.mongodb.com/docs/manual/installation)", ErrNotFound, err)
	}
	return path, nil
}

func startMongod(ctx context.Context, binary string, opts Options) (*Process, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, cleanup, err := dataDir(opts.Dir, "mongod")
	if err != nil {
		return nil, err
	}
	cache := opts.CacheGB
	if cache == 0 {
		cache = 1
	}
	p, err := launch(opts, binary,
		"--dbpath", dir, "--port", port, "--replSet", replicaSet, "--bind_ip", "127.0.0.1",
		"--wiredTigerCacheSizeGB", strconv.FormatFloat(cache, 'f', -1, 64),
		// Nothing else connects, so an orderly end need not wait for clients to move to another member.
		"--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100")
	if err != nil {
		removeAll(cleanup)
		return nil, err
	}
	p.cleanup = cleanup
	host := "127.0.0.1:" + port
	p.URI = "mongodb://" + host + "/?directConnection=true"
	initiated := false
	err = p.waitReady(ctx, "mongod on "+host, func(ctx context.Context) error {
		if !initiated {
			if err := initiate(ctx, host); err != nil {
				return err
			}
			initiated = true
		}
		return isPrimary(ctx, host)
	})
	if err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

func dataDir(dir, name string) (path, cleanup string, err error) {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "tidemark-"+name+"-")
		if err != nil {
			return "", "", fmt.Errorf("making a folder for %s: %w", name, err)
		}
		return tmp, tmp, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", "", fmt.Errorf("making the folder of %s: %w", name, err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", fmt.Errorf("finding the folder of %s: %w", name, err)
	}
	return abs, "", nil
}

func removeAll(dir string) {
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
}

const codeAlreadyInitialized = 23

// initiate makes the member a replica set of one. Data that was used before names the port of that time, where this
// member is not at home any more, so its configuration is moved here.
func initiate(ctx context.Context, host string) error {
	members := bson.A{bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: host}}}
	config := bson.D{{Key: "_id", Value: replicaSet}, {Key: "members", Value: members}}
	err := adminCommand(ctx, host, bson.D{{Key: "replSetInitiate", Value: config}}, nil)
	var refused *refusedError
	if !errors.As(err, &refused) || refused.code != codeAlreadyInitialized {
		return err
	}
	var stored struct {
		Config struct {
			Version int32  `bson:"version"`
			Term    int64  `bson:"term"`
			ID      string `bson:"_id"`
		} `bson:"config"`
	}
	if err := adminCommand(ctx, host, bson.D{{Key: "replSetGetConfig", Value: 1}}, &stored); err != nil {
		return err
	}
	config = append(config, bson.E{Key: "version", Value: stored.Config.Version + 1})
	return adminCommand(ctx, host, bson.D{{Key: "replSetReconfig", Value: config}, {Key: "force", Value: true}}, nil)
}

func isPrimary(ctx context.Context, host string) error {
	var hello struct {
		Primary bool `bson:"isWritablePrimary"`
	}
	if err := adminCommand(ctx, host, bson.D{{Key: "hello", Value: 1}}, &hello); err != nil {
		return err
	}
	if !hello.Primary {
		return errors.New("the member is not primary yet")
	}
	return nil
}

// refusedError is mongod's answer to a command that it refused.
type refusedError struct {
	code    int32
	message string
}

func (e *refusedError) Error() string { return fmt.Sprintf("%s (code %d)", e.message, e.code) }

// adminCommand sends one command to the admin database as an OP_MSG (opcode 2013: header, flag bits, one section of
// kind 0) and reads the answer into out. See the MongoDB wire protocol.
func adminCommand(ctx context.Context, host string, command bson.D, out any) error {
	body, err := bson.Marshal(append(command, bson.E{Key: "$db", Value: "admin"}))
	if err != nil {
		return fmt.Errorf("encoding a command: %w", err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", host, err)
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("bounding the call: %w", err)
		}
	}
	const opMsg, headerBytes = 2013, 16 + 4 + 1
	msg := binary.LittleEndian.AppendUint32(nil, uint32(headerBytes+len(body)))
	msg = binary.LittleEndian.AppendUint32(msg, 1) // request id
	msg = binary.LittleEndian.AppendUint32(msg, 0) // response to
	msg = binary.LittleEndian.AppendUint32(msg, opMsg)
	msg = append(msg, 0, 0, 0, 0, 0) // no flags, section kind 0
	if _, err := conn.Write(append(msg, body...)); err != nil {
		return fmt.Errorf("sending to %s: %w", host, err)
	}
	answer, err := readAnswer(conn, headerBytes)
	if err != nil {
		return fmt.Errorf("reading from %s: %w", host, err)
	}
	return decodeAnswer(answer, out)
}

func readAnswer(conn io.Reader, headerBytes int) (bson.Raw, error) {
	head := make([]byte, headerBytes)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	size := int64(binary.LittleEndian.Uint32(head)) - int64(headerBytes)
	if size < 5 || size > 48_000_000 {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return body, nil
}

func decodeAnswer(answer bson.Raw, out any) error {
	var status struct {
		OK      float64 `bson:"ok"`
		Code    int32   `bson:"code"`
		Message string  `bson:"errmsg"`
	}
	if err := bson.Unmarshal(answer, &status); err != nil {
		return fmt.Errorf("decoding an answer: %w", err)
	}
	if math.Abs(status.OK-1) > 0 {
		return &refusedError{code: status.Code, message: status.Message}
	}
	if out == nil {
		return nil
	}
	if err := bson.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("decoding an answer: %w", err)
	}
	return nil
}

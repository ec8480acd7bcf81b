package secretmanager

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strings"
	"sync"

	vendor "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark/tidemark/shared/fault"
)

// unreadable is the class of a secret that will not be readable before a person acts.
const unreadable = "secret-unreadable"

// Client reads secrets. Its methods may be called at the same time.
type Client struct {
	options []option.ClientOption

	mu     sync.Mutex
	client *vendor.Client // nil until a secret is asked for, and where making it failed
}

// New returns a client that has not connected to anything yet.
func New(options ...option.ClientOption) *Client { return &Client{options: options} }

// Get returns the content of a secret version named projects/P/secrets/S/versions/N. An error is Fatal where the
// secret is missing, disabled or refused, or there are no credentials to ask with, else Transient; it names the secret and never holds the content.
func (c *Client) Get(ctx context.Context, name string) ([]byte, error) {
	client, err := c.connect(ctx)
	if err != nil {
		return nil, classifyConnect(name, err)
	}
	answer, err := client.AccessSecretVersion(ctx, &secretmanagerpb.AccessSecretVersionRequest{Name: name})
	if err != nil {
		return nil, classify(name, err)
	}
	payload := answer.GetPayload()
	if payload != nil && payload.DataCrc32C != nil {
		// The sum is Castagnoli's, see SecretPayload in Secret Manager's reference.
		sum := int64(crc32.Checksum(payload.GetData(), crc32.MakeTable(crc32.Castagnoli)))
		if sum != payload.GetDataCrc32C() {
			return nil, fault.Transientf("reading %s: the content was damaged on its way", name)
		}
	}
	return payload.GetData(), nil
}

// Close ends the connection. The next Get would open another.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return nil
	}
	err := c.client.Close()
	c.client = nil
	if err != nil {
		return fmt.Errorf("closing the Secret Manager client: %w", err)
	}
	return nil
}

func (c *Client) connect(ctx context.Context) (*vendor.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	client, err := vendor.NewClient(ctx, c.options...)
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	c.client = client
	return client, nil
}

// classifyConnect chooses the kind of a failure to make the client. No credentials, and a named file of them that is
// not there, stay as they are until a person acts. The first has no other sign than its text, see DetectDefault in
// cloud.google.com/go/auth/credentials.
func classifyConnect(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "could not find default credentials") {
		return fault.Fatalf(unreadable, "connecting to Secret Manager for %s: give the function a service account, or run gcloud auth application-default login: %w", name, err)
	}
	return fault.Transientf("connecting to Secret Manager for %s: %w", name, err)
}

// classify chooses the kind by the gRPC code. What is not listed may pass.
func classify(name string, err error) error {
	switch code := status.Code(err); code {
	case codes.NotFound:
		return fault.Fatalf(unreadable, "reading %s: there is no such secret version", name)
	case codes.FailedPrecondition:
		return fault.Fatalf(unreadable, "reading %s: the secret version is disabled or destroyed", name)
	case codes.PermissionDenied:
		return fault.Fatalf(unreadable, "reading %s: refused: grant roles/secretmanager.secretAccessor on the secret to the function's service account: %w", name, err)
	case codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented:
		return fault.Fatalf(unreadable, "reading %s: %w", name, err)
	case codes.OK, codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.AlreadyExists, codes.ResourceExhausted,
		codes.Aborted, codes.OutOfRange, codes.Internal, codes.Unavailable, codes.DataLoss:
		return fault.Transientf("reading %s: %w", name, err)
	}
	return fault.Transientf("reading %s: %w", name, err)
}

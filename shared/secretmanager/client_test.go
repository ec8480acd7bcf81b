package secretmanager_test

import (
	"context"
	"hash/crc32"
	"net"
	"strings"
	"testing"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tidemark/tidemark/shared/fault"
	"github.com/tidemark/tidemark/shared/secretmanager"
)

// server holds secret versions and answers as Secret Manager does.
type server struct {
	secretmanagerpb.UnimplementedSecretManagerServiceServer
	contents map[string]string
	refusals map[string]codes.Code
	damaged  map[string]bool
}

func (s *server) AccessSecretVersion(_ context.Context, in *secretmanagerpb.AccessSecretVersionRequest) (*secretmanagerpb.AccessSecretVersionResponse, error) {
	if code, found := s.refusals[in.GetName()]; found {
		return nil, status.Error(code, "refused")
	}
	text, found := s.contents[in.GetName()]
	if !found {
		return nil, status.Error(codes.NotFound, "not found")
	}
	sum := int64(crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
	if s.damaged[in.GetName()] {
		text = "x" + text[1:]
	}
	return &secretmanagerpb.AccessSecretVersionResponse{
		Name: in.GetName(), Payload: &secretmanagerpb.SecretPayload{Data: []byte(text), DataCrc32C: &sum},
	}, nil
}

// start serves s and returns a client of it.
func start(t *testing.T, s *server) *secretmanager.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	secretmanagerpb.RegisterSecretManagerServiceServer(grpcServer, s)
	go func() { _ = grpcServer.Serve(listener) }()
	t.Cleanup(grpcServer.Stop)
	client := secretmanager.New(option.WithEndpoint(listener.Addr().String()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

const name = "projects/p/secrets/mongodb/versions/3"

func TestGet_ReturnsTheContent(t *testing.T) {
	t.Parallel()
	client := start(t, &server{contents: map[string]string{name: "hunter2"}})
	for range 2 {
		got, err := client.Get(t.Context(), name)
		if err != nil || string(got) != "hunter2" {
			t.Fatalf("Get = %q, %v", got, err)
		}
	}
}

func TestGet_KindSaysWhetherWaitingHelps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code codes.Code
		want fault.Kind
	}{
		{codes.NotFound, fault.Fatal},
		{codes.FailedPrecondition, fault.Fatal},
		{codes.PermissionDenied, fault.Fatal},
		{codes.InvalidArgument, fault.Fatal},
		{codes.Internal, fault.Transient},
		{codes.DataLoss, fault.Transient},
	} {
		t.Run(test.code.String(), func(t *testing.T) {
			t.Parallel()
			client := start(t, &server{refusals: map[string]codes.Code{name: test.code}})
			_, err := client.Get(t.Context(), name)
			if err == nil || fault.KindOf(err) != test.want || !strings.Contains(err.Error(), name) {
				t.Errorf("Get = %v, kind %s, want %s and the secret's name", err, fault.KindOf(err), test.want)
			}
		})
	}
}

func TestGet_DamagedContentIsTransientAndNotShown(t *testing.T) {
	t.Parallel()
	client := start(t, &server{contents: map[string]string{name: "hunter2"}, damaged: map[string]bool{name: true}})
	_, err := client.Get(t.Context(), name)
	if err == nil || fault.KindOf(err) != fault.Transient || strings.Contains(err.Error(), "unter2") {
		t.Errorf("Get = %v, want a Transient error without the content", err)
	}
}

// Waiting brings no credentials. The library has no sentinel for it, so that this test notices when its text changes.
func TestGet_WithoutCredentialsNeedsAPerson(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, file := range []string{"", "/no/such/file.json"} {
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
		_, err := secretmanager.New().Get(t.Context(), name)
		if err == nil || fault.KindOf(err) != fault.Fatal || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "service account") {
			t.Errorf("Get = %v, kind %s, want a Fatal error with the secret's name and what to do", err, fault.KindOf(err))
		}
	}
}

func TestNew_NeedsNoCredentialsBeforeASecretIsAskedFor(t *testing.T) {
	t.Parallel()
	if err := secretmanager.New().Close(); err != nil {
		t.Error(err)
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"time"
)

// profileSocket names, in the environment of a function process, the Unix socket at which it can be profiled. Nothing
// outside of the benchmark's own folder can reach it, and a deployed function has no such thing.
const profileSocket = "TIDEMARK_BENCH_PROFILE_SOCKET"

// serveProfile lets the function process of a benchmark be profiled. It returns at once.
func serveProfile() {
	path := os.Getenv(profileSocket)
	if path == "" {
		return
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "listening for the profiler:", err)
		return
	}
	var profile bytes.Buffer
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, _ *http.Request) {
		if err := pprof.StartCPUProfile(&profile); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		pprof.StopCPUProfile()
		_, _ = w.Write(profile.Bytes()) // the benchmark sees that it is cut off
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until the process ends
}

// profiler profiles a function process, where a file is named for it.
type profiler struct{ socket, file string }

func (p profiler) env() []string {
	if p.file == "" {
		return nil
	}
	return []string{profileSocket + "=" + p.socket}
}

func (p profiler) start(ctx context.Context) error {
	if p.file == "" {
		return nil
	}
	return p.call(ctx, "start", new(bytes.Buffer))
}

func (p profiler) stop(ctx context.Context) error {
	if p.file == "" {
		return nil
	}
	var profile bytes.Buffer
	if err := p.call(ctx, "stop", &profile); err != nil {
		return err
	}
	if profile.Len() == 0 {
		return errors.New("profiling the function: the profile is empty")
	}
	if err := os.WriteFile(p.file, profile.Bytes(), 0o600); err != nil {
		return fmt.Errorf("storing the profile: %w", err)
	}
	return nil
}

func (p profiler) call(ctx context.Context, what string, answer *bytes.Buffer) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	}}
	defer transport.CloseIdleConnections()
	return post(ctx, &http.Client{Transport: transport}, "http://function/"+what, answer)
}

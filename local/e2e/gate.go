package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// gate passes connections on to a listener and counts them. A broker names its own listener in its answers, so only the
// first connections come through: those that fail to sign in are such.
type gate struct {
	address  string
	count    atomic.Int64
	listener net.Listener
	ended    sync.WaitGroup
}

func newGate(ctx context.Context, target string) (*gate, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	g := &gate{address: listener.Addr().String(), listener: listener}
	g.ended.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			g.count.Add(1)
			go pass(ctx, conn, target)
		}
	})
	return g, nil
}

func (g *gate) close() {
	_ = g.listener.Close() // nothing is left to do about it
	g.ended.Wait()
}

// pass copies both ways until one side ends.
func pass(ctx context.Context, from net.Conn, target string) {
	defer func() { _ = from.Close() }() // both ends are told
	to, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	done := make(chan struct{}, 2)
	one := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src) // the sides see for themselves how it ended
		done <- struct{}{}
	}
	go one(to, from)
	go one(from, to)
	<-done
}

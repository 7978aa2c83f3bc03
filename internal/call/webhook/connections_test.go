package webhook_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call/webhook"
)

// openConns counts the connections that are open.
type openConns struct {
	sync.Mutex

	now, most int
}

func (o *openConns) add(n int) {
	o.Lock()
	defer o.Unlock()
	o.now += n
	o.most = max(o.most, o.now)
}

// watchedConn is a connection that is counted.
type watchedConn struct {
	net.Conn
	closed func()
}

func (w watchedConn) Close() error {
	w.closed()
	return w.Conn.Close()
}

func (o *openConns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.add(1)
	return watchedConn{conn, sync.OnceFunc(func() { o.add(-1) })}, nil
}

// Fault S8: the connections of many hooks, most of them idle, took all file descriptors,
// and health was not answered any more.
func TestConnectionsOfAllWebhooksAreBounded(t *testing.T) {
	const limit, webhooks, callers = 4, 10, 8
	bound, counted := webhook.NewConnections(limit), &openConns{}
	var calls sync.WaitGroup
	for range webhooks {
		server := answering(t, 200, nil, `{"children":[]}`)
		w := open(t, webhook.Config{URL: server.URL, Connections: bound, Dial: counted.dial, Timeout: time.Minute})
		for range callers {
			calls.Go(func() {
				for range 5 {
					if _, err := w.Call(t.Context(), question()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	calls.Wait()
	counted.Lock()
	defer counted.Unlock()
	if counted.most > limit {
		t.Errorf("%d connections were open, of %d allowed", counted.most, limit)
	}
}

// A call that finds all connections in use ends when its time is up.
func TestConnectionsInUseAreWaitedFor(t *testing.T) {
	bound, called := webhook.NewConnections(1), make(chan struct{})
	stuck := open(t, webhook.Config{Connections: bound, Timeout: time.Minute, URL: serve(t, func(_ int, conn net.Conn) {
		close(called)
		_, _ = conn.Read(make([]byte, 1<<10))
		_, _ = conn.Read(make([]byte, 1<<10)) // until the caller closes it
		_ = conn.Close()
	})})
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = stuck.Call(ctx, question()) })
	<-called
	server := answering(t, 200, nil, `{"children":[]}`)
	w := open(t, webhook.Config{URL: server.URL, Connections: bound, Timeout: 100 * time.Millisecond})
	if _, err := w.Call(t.Context(), question()); err == nil || !strings.Contains(err.Error(), "no answer within 100ms") {
		t.Error(err)
	}
	stop()
	calls.Wait()
	free := open(t, webhook.Config{URL: server.URL, Connections: bound, Timeout: time.Minute})
	if _, err := free.Call(t.Context(), question()); err != nil {
		t.Errorf("once it is free: %v", err)
	}
}

package webhook_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// connCounter counts open connections.
type connCounter struct {
	sync.Mutex

	now, max int
}

func (o *connCounter) add(n int) {
	o.Lock()
	defer o.Unlock()
	o.now += n
	o.max = max(o.max, o.now)
}

type countedConn struct {
	net.Conn
	closed func()
}

func (w countedConn) Close() error {
	w.closed()
	return w.Conn.Close()
}

func (o *connCounter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.add(1)
	return countedConn{conn, sync.OnceFunc(func() { o.add(-1) })}, nil
}

// Idle connections to many hooks must not exhaust the file descriptors, which health
// probes need too.
func TestConnectionLimiterIsShared(t *testing.T) {
	const limit, webhooks, callers = 4, 10, 8
	bound, counted := webhook.NewConnectionLimiter(limit), &connCounter{}
	var calls sync.WaitGroup
	for range webhooks {
		server := serveResponse(t, 200, nil, `{"children":[]}`)
		w := open(t, webhook.Config{URL: server.URL, ConnectionLimiter: bound, Dial: counted.dial, Timeout: time.Minute})
		for range callers {
			calls.Go(func() {
				for range 5 {
					if _, err := w.Call(t.Context(), request()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	calls.Wait()
	counted.Lock()
	defer counted.Unlock()
	if counted.max > limit {
		t.Errorf("%d connections were open, of %d allowed", counted.max, limit)
	}
}

// A call waits for a free connection until its timeout.
func TestConnectionLimiterWaits(t *testing.T) {
	bound, called := webhook.NewConnectionLimiter(1), make(chan struct{})
	stuck := open(t, webhook.Config{ConnectionLimiter: bound, Timeout: time.Minute, URL: serve(t, func(_ int, conn net.Conn) {
		close(called)
		_, _ = conn.Read(make([]byte, 1<<10))
		_, _ = conn.Read(make([]byte, 1<<10)) // Until the caller closes it.
		_ = conn.Close()
	})})
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = stuck.Call(ctx, request()) })
	<-called
	server := serveResponse(t, 200, nil, `{"children":[]}`)
	w := open(t, webhook.Config{URL: server.URL, ConnectionLimiter: bound, Timeout: 100 * time.Millisecond})
	if _, err := w.Call(t.Context(), request()); err == nil || !strings.Contains(err.Error(), "no response within 100ms") {
		t.Error(err)
	}
	stop()
	calls.Wait()
	free := open(t, webhook.Config{URL: server.URL, ConnectionLimiter: bound, Timeout: time.Minute})
	must.Get(free.Call(t.Context(), request())).In(t) // Once it is free.
}

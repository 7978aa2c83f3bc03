package webhook_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// countConnections starts a server and counts its connections.
func countConnections(t *testing.T, handler http.HandlerFunc) (url string, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, connections
}

func TestConnectionsAreReusedAfterErrors(t *testing.T) {
	for _, code := range []int{200, 204, 302, 404, 429, 500} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			url, connections := countConnections(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(code)
				_, _ = io.WriteString(w, strings.Repeat("miaow ", 5000))
			})
			w := open(t, webhook.Config{URL: url})
			for range 20 {
				if _, err := w.Call(t.Context(), request()); err == nil {
					t.Fatal("no error")
				}
			}
			if n := connections.Load(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

func TestConnectionsAreKeptForEveryCaller(t *testing.T) {
	const callers, rounds = 12, 20
	// In every round, all callers wait for each other within the hook.
	var round sync.WaitGroup
	url, connections := countConnections(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		round.Done()
		round.Wait()
		_, _ = io.WriteString(w, `{"children":[]}`)
	})
	w := open(t, webhook.Config{URL: url, Concurrency: callers})
	for range rounds {
		round.Add(callers)
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				if _, err := w.Call(t.Context(), request()); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	// A connection becomes idle shortly after its response, so some callers dial a new
	// one. Without reuse, nearly every call would.
	if n := connections.Load(); n > callers*rounds/2 {
		t.Errorf("%d connections for %d callers", n, callers)
	}
	t.Logf("%d connections for %d callers", connections.Load(), callers)
}

const okReply = "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"children\":[]}"

// connHandler handles the nth connection to a server.
type connHandler func(nth int, conn net.Conn)

// respondAndClose sends raw bytes for the first request on every connection and closes
// it.
func respondAndClose(rawURL string) connHandler {
	return func(_ int, conn net.Conn) {
		readRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, rawURL)
		_ = conn.Close()
	}
}

// respondAndWait is respondAndClose, but waits for the client to close the connection.
func respondAndWait(rawURL string) connHandler {
	return func(_ int, conn net.Conn) {
		in := bufio.NewReader(conn)
		readRequest(in)
		_, _ = io.WriteString(conn, rawURL)
		_, _ = io.Copy(io.Discard, in)
		_ = conn.Close()
	}
}

// readRequest reads one request and reports whether it succeeded.
func readRequest(in *bufio.Reader) bool {
	req, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// serve runs a connHandler on a new port and returns its URL.
func serve(t *testing.T, s connHandler) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for nth := 0; ; nth++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s(nth, conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

// openPipe returns a webhook whose connections are pipes, which work with fake time.
func openPipe(t *testing.T, c webhook.Config, s connHandler, of ...call.Config) testHook {
	t.Helper()
	c.URL = "http://hook.default/sync"
	var dialled atomic.Int64
	c.Dial = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go s(int(dialled.Add(1)-1), theirs)
		return ours, nil
	}
	return open(t, c, of...)
}

func TestBrokenConnections(t *testing.T) {
	for _, c := range []struct {
		name, raw, want string
	}{
		{"closed", "", "connection closed without a response"},
		{"closed in the header", "HTTP/1.1 200 OK\r\nContent-", `malformed MIME header: missing colon: "Content-"`},
		{"closed in the body", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"children\":[", "connection closed in the middle of the response, after 13 bytes"},
		{"closed in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"chi\r\n9\r\nld", "connection closed in the middle of the response, after 7 bytes"},
		{"announced by the terabyte", "HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n{", "malformed response: larger than 32 MiB"},
		{"not HTTP", "220 mail.example.com ESMTP\r\n", `malformed HTTP status code "mail.example.com"`},
		{"without a length", "HTTP/1.1 200 OK\r\n\r\n{\"children\":[", "malformed response: children: cut short after 13 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serve(t, respondAndClose(c.raw))
			expectError(t, open(t, webhook.Config{URL: url}), url, c.want)
		})
	}
}

func TestRefusedConnection(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	address := listener.Addr().String()
	_ = listener.Close()
	w := open(t, webhook.Config{URL: "http://" + address + "/sync?token=secret"})
	expectError(t, w, "http://"+address+"/sync", "connection refused by "+address)
	if _, err := w.Call(t.Context(), request()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v is not ECONNREFUSED", err)
	}
}

// The error includes what the dialer adds: the known hosts.
func TestUnknownHostNextToKnownHosts(t *testing.T) {
	for _, added := range []string{"", "; processes in setpoint.yaml stand in for hook.web"} {
		w := open(t, webhook.Config{URL: "http://hok.web/sync", Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
			unknown := &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: "hok.web", IsNotFound: true}}
			return nil, fmt.Errorf("%w%s", unknown, added)
		}})
		expectError(t, w, "http://hok.web/sync", "no such host: hok.web"+added)
	}
}

func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		name   string
		server connHandler
		want   string
	}{
		{"silent", respondAndWait(""), "no response within 10s"},
		{"stuck", respondAndWait("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"chi"), "no complete response within 10s, only 5 bytes"},
		{"deaf", func(_ int, conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }, "no response within 10s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := openPipe(t, webhook.Config{}, c.server)
				start := time.Now()
				_, err := w.Call(t.Context(), request())
				if want := "POST http://hook.default/sync: " + c.want; err == nil || err.Error() != want || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %q, want %q, which is not the caller's deadline", err, want)
				}
				if took := time.Since(start); took != 10*time.Second {
					t.Errorf("took %v, want 10s", took)
				}
			})
		})
	}
}

// A hook that switches protocols and keeps the connection open must not block its
// caller.
func TestSwitchingProtocols(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hungUp := make(chan struct{})
		keeping := respondAndWait("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
		code := 0
		observe := func(e call.Result) { code = e.Code }
		w := openPipe(t, webhook.Config{}, func(nth int, conn net.Conn) {
			defer close(hungUp)
			keeping(nth, conn)
		}, call.Config{Observe: observe})
		start := time.Now()
		expectError(t, w, "http://hook.default/sync", "returned 101 Switching Protocols")
		<-hungUp
		if took := time.Since(start); took != 0 || code != http.StatusSwitchingProtocols {
			t.Errorf("took %v, observed code %d", took, code)
		}
	})
}

// After a hook's pod is replaced, connections to the old pod are dead. Only the call
// that detects this may fail.
func TestTimeoutDropsIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := openPipe(t, webhook.Config{Timeout: time.Second}, func(nth int, conn net.Conn) {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for requests := 0; readRequest(in); requests++ {
				switch {
				case nth >= 2:
				case requests == 0:
					<-release
				default:
					// The old pod no longer responds.
					_, _ = io.Copy(io.Discard, in)
					return
				}
				_, _ = io.WriteString(conn, okReply)
			}
		})
		mustServeTwoCalls(t, w, release)
		expectError(t, w, "http://hook.default/sync", "no response within 1s")
		must.Get(w.Call(t.Context(), request())).In(t) // The call after that.
	})
}

// mustServeTwoCalls leaves two idle connections.
func mustServeTwoCalls(t *testing.T, w testHook, release chan struct{}) {
	t.Helper()
	errs := make(chan error)
	for range 2 {
		go func() {
			_, err := w.Call(t.Context(), request())
			errs <- err
		}()
	}
	synctest.Wait()
	close(release)
	for range 2 {
		must.Succeed(t, <-errs)
	}
	synctest.Wait()
}

// A server may close an idle connection while the next request is on its way. The
// request is then retried on a new one.
func TestStaleConnection(t *testing.T) {
	connections := make(chan int, 3)
	url := serve(t, func(nth int, conn net.Conn) {
		defer conn.Close()
		connections <- nth
		in := bufio.NewReader(conn)
		readRequest(in)
		_, _ = io.WriteString(conn, okReply)
		readRequest(in)
	})
	w := open(t, webhook.Config{URL: url})
	for range 3 {
		must.Get(w.Call(t.Context(), request())).In(t)
	}
	w.Close()
	if got := len(connections); got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
}

// With a long request, it is the write that fails, at any point.
func TestStaleConnectionDuringRequest(t *testing.T) {
	const rounds = 5
	url := serve(t, func(_ int, conn net.Conn) {
		in := bufio.NewReader(conn)
		readRequest(in)
		_, _ = io.WriteString(conn, okReply)
		_, _ = in.Peek(1)
		// Closing with unread bytes resets the connection.
		_ = conn.Close()
	})
	w := open(t, webhook.Config{URL: url})
	long := request()
	long.Parent = fmt.Appendf(nil, `{"v":%q}`, strings.Repeat("x", 4<<20))
	for range rounds {
		must.Get(w.Call(t.Context(), long)).In(t)
	}
}

// A request that crashes the hook is sent at most twice, regardless of the number of
// idle connections.
func TestRequestThatCrashesTheHook(t *testing.T) {
	var deadly atomic.Bool
	var requests atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := openPipe(t, webhook.Config{}, func(_ int, conn net.Conn) {
			defer conn.Close()
			for in := bufio.NewReader(conn); readRequest(in); {
				if deadly.Load() {
					requests.Add(1)
					return
				}
				<-release
				_, _ = io.WriteString(conn, okReply)
			}
		})
		mustServeTwoCalls(t, w, release)
		deadly.Store(true)
		expectError(t, w, "http://hook.default/sync", "connection closed without a response")
	})
	if got := requests.Load(); got != 2 {
		t.Errorf("called %d times, want 2", got)
	}
}

// A request is not retried after the first byte of a response, nor without one on a fresh connection.
func TestOnlyStaleConnectionsAreRetried(t *testing.T) {
	for _, raw := range []string{"", "HTTP/1.1 200 OK\r\nContent-"} {
		var requests atomic.Int64
		url := serve(t, func(_ int, conn net.Conn) {
			requests.Add(1)
			respondAndClose(raw)(0, conn)
		})
		if _, err := open(t, webhook.Config{URL: url}).Call(t.Context(), request()); err == nil || requests.Load() != 1 {
			t.Errorf("%q: called %d times, %v", raw, requests.Load(), err)
		}
	}
}

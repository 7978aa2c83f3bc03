package roundtrip_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// rawServer is a server on a pipe: it sends raw bytes for each request and keeps the
// connection open until the client closes it, which closes closed.
func rawServer(raw string) (transport *http.Transport, closed chan struct{}) {
	closed = make(chan struct{})
	transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer close(closed)
			in := bufio.NewReader(theirs)
			if req, err := http.ReadRequest(in); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			_, _ = io.WriteString(theirs, raw)
			_, _ = io.Copy(io.Discard, in)
		}()
		return ours, nil
	}}
	return transport, closed
}

func request(ctx context.Context, t *testing.T) *http.Request {
	t.Helper()
	return must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "http://hook.default/", http.NoBody)).In(t)
}

// A server that switches protocols must not block its caller.
func TestInterimResponse(t *testing.T) {
	for _, raw := range []string{
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 9\r\n\r\nbytes",
		"HTTP/1.1 101\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			transport, closed := rawServer(raw)
			began := time.Now()
			response, err := roundtrip.NewTransport(transport).RoundTrip(request(t.Context(), t))
			if err == nil {
				_ = response.Body.Close()
			}
			if interim, is := errors.AsType[*roundtrip.InterimError](err); !is || interim.Code != http.StatusSwitchingProtocols {
				t.Errorf("%q: %v", raw, err)
			}
			<-closed
			if took := time.Since(began); took != 0 {
				t.Errorf("%q: took %v", raw, took)
			}
		})
	}
}

// endlessBody blocks until it is closed.
type endlessBody struct{ ended chan struct{} }

func (e endlessBody) Read([]byte) (int, error) {
	<-e.ended
	return 0, net.ErrClosed
}

func (e endlessBody) Close() error {
	close(e.ended)
	return nil
}

type bodyTransport struct{ body io.ReadCloser }

func (a bodyTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: a.body}, nil
}

// Any body ends with the context.
func TestBodyEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		response, err := roundtrip.Do(bodyTransport{endlessBody{make(chan struct{})}}, request(ctx, t)) //nolint:bodyclose // The context closes it.
		must.Succeed(t, err)
		if _, err := io.ReadAll(response.Body); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A body that was read to its end is closed once.
func TestBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		body := endlessBody{make(chan struct{})}
		response, err := roundtrip.Do(bodyTransport{body}, request(ctx, t))
		must.Succeed(t, err)
		must.Succeed(t, response.Body.Close())
		<-body.ended
		cancel() // A second Close would panic.
		synctest.Wait()
	})
}

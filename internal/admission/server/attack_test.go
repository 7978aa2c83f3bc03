package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// attack opens connections to a server, each of which says something and then keeps the
// connection. It returns once all have said it, and ends with the test.
func (s *serving) attack(t *testing.T, connections int, says string) {
	t.Helper()
	var said sync.WaitGroup
	for range connections {
		said.Go(func() {
			conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{RootCAs: s.pool, MinVersion: tls.VersionTLS12})
			if err != nil {
				return // It was one too many.
			}
			t.Cleanup(func() { conn.Close() })
			_, _ = io.WriteString(conn, says)
		})
	}
	said.Wait()
}

// posting is the beginning of a review of so many bytes.
func posting(path string, size int, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, size, body)
}

// Fault S2: 300 unauthenticated connections that send their review slowly stopped all
// reviews of all controllers.
func TestSlowConnectionsBlockNoReviews(t *testing.T) {
	const key = admission.PathKey("a key")
	path := key.AddToken("/admit/web/check")
	for name, says := range map[string]string{
		"nothing":          "",
		"half a header":    "POST / HTTP/1.1\r\nHost: ",
		"an unknown path":  posting("/admit/web/check", 4096, "{"),
		"the path":         posting(path, 4096, "{"),
		"the path, a lot":  posting(path, 8<<20, strings.Repeat(" ", 64<<10)),
		"another's path":   posting(key.AddToken("/admit/other/check"), 4096, "{"),
		"the probe's path": posting(key.AddToken("/probe/web"), 4096, "{"),
	} {
		t.Run(name, func(t *testing.T) {
			other := programOf(allow)
			other.Name = "other"
			s := serve(t, Options{MaxReviews: 2, PathKeys: func() admission.PathKeys { return admission.PathKeys{Key: key} }}, programOf(allow), other)
			client := s.client(t)
			genuine := func(client *http.Client) {
				t.Helper()
				began := time.Now()
				got, err := s.post(client, path+"?timeout=10s", reviewOf(`"operation":"DELETE"`))
				if err != nil || got.code != http.StatusOK {
					t.Errorf("after %v: %d, %s, %v", time.Since(began), got.code, got.body, err)
				}
			}
			genuine(client)
			s.attack(t, 300, says)
			for range 20 {
				genuine(client)
			}
			genuine(s.client(t)) // A new connection gets through, too.
		})
	}
}

// A hook that does not respond uses up only the slots of its own controller.
func TestTurnsAreByProgram(t *testing.T) {
	entered, release := make(chan struct{}, 2), make(chan struct{})
	stuck := programOf(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		entered <- struct{}{}
		<-release
		return &hook.ReviewResponse{}, nil
	})
	well := programOf(allow)
	well.Name = "well"
	s := New(Options{MaxReviews: 2})
	s.Set([]*admission.Program{stuck, well})
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() { post(s, "/admit/web/check", reviewOf(`"operation":"DELETE"`)) })
		<-entered
	}
	s.Set([]*admission.Program{stuck, well}) // As when another controller is edited.
	if w := post(s, "/admit/web/check?timeout=20ms", reviewOf(`"operation":"DELETE"`)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if w := post(s, "/admit/well/check", reviewOf(`"operation":"DELETE"`)); w.Code != http.StatusOK {
		t.Errorf("another controller: %d: %s", w.Code, w.Body)
	}
	close(release)
	calls.Wait()
}

// A review that does not arrive at once is given up.
func TestSlowReviewsAreGivenUp(t *testing.T) {
	const bodyTimeout = 300 * time.Millisecond
	s := serve(t, Options{BodyTimeout: bodyTimeout}, programOf(allow))
	conn := must.Get(tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{RootCAs: s.pool, MinVersion: tls.VersionTLS12})).In(t)
	defer conn.Close()
	began := time.Now()
	_, _ = io.WriteString(conn, posting("/admit/web/check?timeout=30s", 4096, "{"))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.Succeed(t, err)
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if took := time.Since(began); response.StatusCode != http.StatusBadRequest || took < bodyTimeout || !strings.Contains(string(text), "after 1 bytes") {
		t.Errorf("after %v: %d, %s", took, response.StatusCode, text)
	}
}

// The read timeout does not limit the hook: a slower hook still gets its response through.
func TestSlowHooksAreWaitedFor(t *testing.T) {
	withMoreTime(t, 100*time.Millisecond, func(bodyTimeout time.Duration) error { return callSlowHook(t, bodyTimeout) })
}

func callSlowHook(t *testing.T, bodyTimeout time.Duration) error {
	t.Helper()
	s := serve(t, Options{BodyTimeout: bodyTimeout}, programOf(func(ctx context.Context, _ *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		select {
		case <-time.After(3 * bodyTimeout):
			return &hook.ReviewResponse{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
	client := s.client(t)
	for range 2 {
		got, err := s.post(client, "/admit/web/check", reviewOf(`"operation":"DELETE"`))
		if err != nil {
			return err
		}
		if got.code != http.StatusOK {
			return fmt.Errorf("%d, %s", got.code, got.body)
		}
	}
	return nil
}

// There are never more connections than the bound, from any client.
func TestConnectionsAreBounded(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	defer listener.Close()
	open := &connections{most: 4}
	counted := &bounded{listener, open}
	var accepted []*connection
	accept := func() {
		conn := must.Get(net.Dial("tcp", listener.Addr().String())).In(t)
		t.Cleanup(func() { _ = conn.Close() })
		accepted = append(accepted, must.Get(counted.Accept()).In(t).(*connection))
	}
	for range 10 {
		accept()
	}
	expect := func(open ...int) {
		t.Helper()
		for i, one := range accepted {
			if _, err := one.Write([]byte("x")); errors.Is(err, net.ErrClosed) == slices.Contains(open, i) {
				t.Errorf("connection %d: %v", i, err)
			}
		}
	}
	expect(6, 7, 8, 9)
	accepted[6].prove()
	accepted[0].prove() // It is closed.
	accept()
	expect(6, 8, 9, 10)
	for _, i := range []int{9, 10, 6, 8} {
		accepted[i].prove()
	}
	accept() // All others are proven.
	expect(6, 8, 10, 11)
	accept()
	expect(6, 8, 10, 12)
	accepted[10].Close()
	accepted[10].Close()
	accept()
	expect(6, 8, 12, 13)
}

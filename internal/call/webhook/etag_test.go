package webhook_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// requestFor returns a request for the parent with this name.
func requestFor(apiVersion, namespace, name string) *hook.Request {
	q := request()
	q.Parent = fmt.Appendf(nil, `{"apiVersion":%q,"kind":"Cat","metadata":{"namespace":%q,"name":%q}}`, apiVersion, namespace, name)
	return q
}

// etagServer is a hook that sends an ETag, and only a status code if the request has
// one.
type etagServer struct {
	code        int
	body        string
	ifNoneMatch []string
}

func (h *etagServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	tag := r.Header.Get("If-None-Match")
	h.ifNoneMatch = append(h.ifNoneMatch, tag)
	if tag != "" && h.code != 0 {
		w.WriteHeader(h.code)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint("v", len(h.ifNoneMatch))))
	_, _ = io.WriteString(w, h.body)
}

func (h *etagServer) open(t *testing.T, c webhook.Config, of ...call.Config) testHook {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c.URL, c.ETag.Enabled = server.URL, true
	return open(t, c, of...)
}

func (h *etagServer) expectIfNoneMatch(t *testing.T, tags ...string) {
	t.Helper()
	if got, want := fmt.Sprintf("%q", h.ifNoneMatch), fmt.Sprintf("%q", tags); got != want {
		t.Errorf("called with If-None-Match %s, want %s", got, want)
	}
}

const taggedResponse = `{"status":{"n":1},"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}]}`

func TestCachedResponseIsReused(t *testing.T) {
	for _, code := range []int{http.StatusNotModified, http.StatusPreconditionFailed} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			h := &etagServer{code: code, body: taggedResponse}
			var last call.Result
			w := h.open(t, webhook.Config{}, call.Config{Observe: func(e call.Result) { last = e }})
			for range 3 {
				resp := must.Get(w.Call(t.Context(), requestFor("a.example/v1", "home", "tom"))).In(t)
				if string(resp.Status) != `{"n":1}` || len(resp.Children) != 1 {
					t.Errorf("got %s and %s", resp.Status, resp.Children)
				}
				// The caller owns the response and may modify it.
				clear(resp.Status)
				clear(resp.Children[0])
			}
			h.expectIfNoneMatch(t, "", `"v1"`, `"v1"`)
			if last.Code != code || last.BytesIn != 0 {
				t.Errorf("observed %+v", last)
			}
		})
	}
}

// Both codes are errors unless the request sent an ETag.
func TestUnexpectedNotModifiedIsAnError(t *testing.T) {
	for code, want := range map[int]string{
		304: "returned 304 Not Modified", 412: "returned 412 Precondition Failed",
	} {
		server := serveResponse(t, code, nil, "")
		for _, enabled := range []bool{false, true} {
			w := open(t, webhook.Config{URL: server.URL, ETag: webhook.ETag{Enabled: enabled}})
			expectError(t, w, server.URL, want)
		}
	}
}

func TestNoETagIsSentUnlessEnabled(t *testing.T) {
	h := &etagServer{body: taggedResponse}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	w := open(t, webhook.Config{URL: server.URL})
	for range 2 {
		must.Get(w.Call(t.Context(), requestFor("a.example/v1", "home", "tom"))).In(t)
	}
	h.expectIfNoneMatch(t, "", "")
}

// Parents do not share responses, even if their kinds have the same name.
func TestCacheKeys(t *testing.T) {
	h := &etagServer{code: 304, body: taggedResponse}
	w := h.open(t, webhook.Config{})
	finalizing := requestFor("a.example/v1", "home", "tom")
	finalizing.Finalizing = true
	for _, q := range []*hook.Request{
		requestFor("a.example/v1", "home", "tom"), requestFor("b.example/v1", "home", "tom"),
		requestFor("a.example/v1", "away", "tom"), requestFor("a.example/v1", "home", "kit"), finalizing,
	} {
		must.Get(w.Call(t.Context(), q)).In(t)
	}
	h.expectIfNoneMatch(t, "", "", "", "", "")
	must.Get(w.Call(t.Context(), requestFor("a.example/v2", "home", "tom"))).In(t)
	h.expectIfNoneMatch(t, "", "", "", "", "", `"v1"`)
}

// A new response replaces the cached one, and a malformed one is not cached: that would repeat its error.
func TestNewResponses(t *testing.T) {
	for body, tags := range map[string][]string{taggedResponse: {"", `"v1"`, `"v2"`}, `{"childern":[]}`: {"", "", ""}} {
		h := &etagServer{body: body}
		w := h.open(t, webhook.Config{})
		for range 3 {
			if _, err := w.Call(t.Context(), requestFor("a.example/v1", "home", "tom")); (err == nil) != (body == taggedResponse) {
				t.Fatal(err)
			}
		}
		h.expectIfNoneMatch(t, tags...)
	}
}

func TestCacheMaxBytes(t *testing.T) {
	h := &etagServer{code: 304, body: `{"children":[]` + strings.Repeat(" ", 1000) + `}`}
	w := h.open(t, webhook.Config{ETag: webhook.ETag{MaxBytes: 4000}})
	for _, name := range []string{"a", "b", "a", "c", "c"} {
		must.Get(w.Call(t.Context(), requestFor("x.example/v1", "home", name))).In(t)
	}
	h.expectIfNoneMatch(t, "", "", `"v1"`, "", `"v4"`) // The cache fits two responses.
	if n, size := w.transport.CacheSize(); n != 2 || size > 4000 {
		t.Errorf("%d responses of %d bytes are cached", n, size)
	}
}

func TestCachedResponsesExpire(t *testing.T) {
	for _, c := range []struct {
		name string
		etag webhook.ETag
		// lifetime is when a response expires, gone when the cache evicts it.
		lifetime, gone time.Duration
	}{
		{"by default", webhook.ETag{}, time.Hour, time.Hour},
		{"with a timeout alone", webhook.ETag{Timeout: time.Minute}, time.Minute, time.Minute},
		{"cleaned up later", webhook.ETag{Timeout: time.Minute, Cleanup: time.Hour}, time.Minute, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var received atomic.Bool
				c.etag.Enabled = true
				w := openPipe(t, webhook.Config{ETag: c.etag}, serveETag(&received))
				call := func(name string) bool {
					received.Store(false)
					must.Get(w.Call(t.Context(), requestFor("a.example/v1", "home", name))).In(t)
					return received.Load()
				}
				call("tom")
				<-time.After(c.lifetime - time.Second)
				if !call("tom") {
					t.Error("the response was not used before it expired")
				}
				<-time.After(time.Second)
				if call("tom") {
					t.Error("the response was used after it expired")
				}
				call("kit")
				<-time.After(c.gone)
				call("eve")
				if n, _ := w.transport.CacheSize(); n != 1 {
					t.Errorf("%d responses are cached, want only that for eve", n)
				}
			})
		})
	}
}

// serveETag sends an ETag, or 304 if the request has one, and records which.
func serveETag(received *atomic.Bool) connHandler {
	return func(_ int, conn net.Conn) {
		defer conn.Close()
		called, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, called.Body)
		received.Store(called.Header.Get("If-None-Match") != "")
		if received.Load() {
			_, _ = io.WriteString(conn, "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n")
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nEtag: \"x\"\r\nConnection: close\r\nContent-Length: 15\r\n\r\n{\"children\":[]}")
	}
}

func TestCachedCustomizeResponseIsReused(t *testing.T) {
	h := &etagServer{code: 304, body: `{"relatedResources":[{"apiVersion":"v1","resource":"nodes"}]}`}
	w := h.open(t, webhook.Config{})
	for range 2 {
		resp, err := w.Customize(t.Context(), &hook.CustomizeRequest{Parent: requestFor("a.example/v1", "home", "tom").Parent})
		if err != nil || len(resp.Related) != 1 || resp.Related[0].Resource != "nodes" {
			t.Fatalf("got %v and error %v", resp, err)
		}
	}
	h.expectIfNoneMatch(t, "", `"v1"`)
}

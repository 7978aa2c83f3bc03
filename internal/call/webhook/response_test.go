package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func request() *hook.Request {
	return &hook.Request{Controller: []byte(`{}`), Parent: []byte(`{}`), ParentNamespace: "default"}
}

// serveResponse sends the same response to every request.
func serveResponse(t *testing.T, code int, header http.Header, body string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server
}

// expectError makes a call that fails with an error about a URL.
func expectError(t *testing.T, w testHook, url, want string) {
	t.Helper()
	resp, err := w.Call(t.Context(), request())
	if want = "POST " + url + ": " + want; resp != nil || fmt.Sprint(err) != want {
		t.Errorf("got  %v, %v\nwant %s", resp, err, want)
	}
}

func TestStatusErrors(t *testing.T) {
	page := "<html>\r\n\t<b>\x1b[31mbad</b>\x00 gateway </html>\n"
	for _, c := range []struct {
		name   string
		code   int
		header http.Header
		body   string
		want   string
	}{
		{"not found", 404, nil, "no such page", "returned 404 Not Found: no such page"},
		{"error", 500, nil, "", "returned 500 Internal Server Error"},
		{"traceback", 500, nil, "Traceback:\n  File \"sync.py\"\n", `returned 500 Internal Server Error: Traceback: File "sync.py"`},
		{"page", 502, nil, page, "returned 502 Bad Gateway: <html> <b> [31mbad</b> gateway </html>"},
		{"endless", 503, nil, strings.Repeat("x", 1<<20), "returned 503 Service Unavailable: " + strings.Repeat("x", 200) + "…"},
		{"strange", 799, nil, "", "returned 799"},
		{"created", 201, nil, `{"children":[]}`, `returned 201 Created: {"children":[]}`},
		{"no content", 204, nil, "", "returned 204 No Content"},
		{"redirect", 301, http.Header{"Location": {"https://example.com/"}}, "",
			"returned 301 Moved Permanently, pointing to https://example.com/; redirects are not followed: use that URL"},
		{"busy, no word when", 429, nil, "slow down", "returned 429 Too Many Requests: slow down"},
		{"empty", 200, nil, "", "malformed response: empty"},
		{"cut short", 200, nil, `{"children":[`, "malformed response: children: cut short after 13 bytes"},
		{"child null", 200, nil, `{"children":[null]}`, "malformed response: children[0]: must be an object, is null"},
		{"child without name", 200, nil, `{"children":[{"apiVersion":"v1","kind":"Pod"}]}`, "malformed response: children[0].metadata.name: required"},
		{"misspelt", 200, nil, `{"childern":[]}`, `malformed response: childern: unknown field; did you mean "children"?`},
		{"compressed", 200, http.Header{"Content-Encoding": {"gzip"}}, "\x1f\x8b", `malformed response: unexpected Content-Encoding "gzip"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serveResponse(t, c.code, c.header, c.body)
			w := open(t, webhook.Config{URL: server.URL})
			expectError(t, w, server.URL, c.want)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"3":                             3 * time.Second,
		"86401":                         24 * time.Hour,
		"9223372036854775807":           24 * time.Hour,
		"Sat, 01 Jan 2000 00:00:05 GMT": 5 * time.Second,
		"Mon, 01 Jan 2035 00:00:00 GMT": 24 * time.Hour,
		"Fri, 31 Dec 1999 00:00:00 GMT": 0,
		"0":                             0,
		"-1":                            0,
		"1.5":                           0,
		"soon":                          0,
		"":                              0,
	} {
		t.Run(value, func(t *testing.T) {
			// The fake clock starts at midnight on January 1, 2000.
			synctest.Test(t, func(t *testing.T) {
				w := openPipe(t, webhook.Config{}, respondAndWait("HTTP/1.1 429 Busy\r\nRetry-After: "+value+"\r\nContent-Length: 0\r\n\r\n"))
				_, err := w.Call(t.Context(), request())
				checkRetryAfter(t, err, want)
			})
		})
	}
}

func checkRetryAfter(t *testing.T, err error, want time.Duration) {
	t.Helper()
	var later *hook.RetryAfterError
	switch called := errors.As(err, &later); {
	case err == nil:
		t.Error("no error")
	case called != (want > 0):
		t.Errorf("got %v, want a wait of %v", err, want)
	case called && later.After != want:
		t.Errorf("got a wait of %v, want %v", later.After, want)
	}
}

func TestMaxResponseBytes(t *testing.T) {
	const limit = 1 << 20
	for _, c := range []struct {
		name      string
		size      int
		announced bool
		want      string
		read      int
	}{
		{"as large as allowed", limit, true, "<nil>", limit},
		{"as large as allowed, unannounced", limit, false, "<nil>", limit},
		{"announced too large", limit + 1, true, "malformed response: larger than 1 MiB", 0},
		{"unannounced too large", 100 << 20, false, "malformed response: larger than 1 MiB", limit + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(padded(c.size, c.announced))
			t.Cleanup(server.Close)
			var trace call.Result
			w := open(t, webhook.Config{URL: server.URL},
				call.Config{Limits: call.Limits{MaxResponseBytes: limit}, Observe: func(e call.Result) { trace = e }})
			_, err := w.Call(t.Context(), request())
			if got := strings.TrimPrefix(fmt.Sprint(err), "POST "+server.URL+": "); got != c.want {
				t.Errorf("got error %s, want %s", got, c.want)
			}
			if trace.BytesIn != c.read {
				t.Errorf("read %d bytes, want %d", trace.BytesIn, c.read)
			}
		})
	}
}

// padded sends a response with no children, padded with white space to size, until the
// client disconnects.
func padded(size int, contentLength bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if contentLength {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		n, err := io.WriteString(w, `{"children":[]}`)
		for left := size - n; left > 0 && err == nil; left -= n {
			n, err = io.WriteString(w, strings.Repeat(" ", min(left, 64<<10)))
		}
	}
}

func TestObserve(t *testing.T) {
	var trace []call.Result
	observe := func(e call.Result) { trace = append(trace, e) }
	good, bad := serveResponse(t, 200, nil, `{"children":[]}`), serveResponse(t, 500, nil, "oh")
	for _, server := range []*httptest.Server{good, bad} {
		w := open(t, webhook.Config{URL: server.URL}, call.Config{Observe: observe})
		_, err := w.Call(t.Context(), request())
		if last := trace[len(trace)-1]; last.Err != err || last.Duration <= 0 {
			t.Errorf("observed %+v of a call with error %v", last, err)
		}
	}
	if good, bad := trace[0], trace[1]; good.Code != 200 || good.BytesIn != 15 || bad.Code != 500 || bad.BytesIn != 2 {
		t.Errorf("observed %+v and %+v", good, bad)
	}
	if len(trace) != 2 {
		t.Errorf("observed %d calls, want 2", len(trace))
	}
}

// Metrics distinguish the hook types and count failed requests.
func TestObserveHookTypes(t *testing.T) {
	var trace []string
	w := open(t, webhook.Config{
		URL:  "http://hook.nowhere/",
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrClosedPipe },
	}, call.Config{Observe: func(e call.Result) {
		trace = append(trace, fmt.Sprint(e.HookType, " ", e.Code, " ", e.Err != nil))
	}})
	finalizing := request()
	finalizing.Finalizing = true
	_, _ = w.Call(t.Context(), request())
	_, _ = w.Call(t.Context(), finalizing)
	_, _ = w.Customize(t.Context(), &hook.CustomizeRequest{})
	if got, want := fmt.Sprint(trace), "[sync 0 true finalize 0 true customize 0 true]"; got != want {
		t.Errorf("observed %s, want %s", got, want)
	}
}

func TestHeaders(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		_, _ = io.WriteString(w, `{"children":[]}`)
	}))
	t.Cleanup(server.Close)
	w := open(t, webhook.Config{URL: strings.Replace(server.URL, "//", "//tom:p%40ss@", 1), UserAgent: "setpoint/1.2"})
	must.Get(w.Call(t.Context(), request())).In(t)
	got.Del("Content-Length")
	want := http.Header{
		"Content-Type":  {"application/json"},
		"Accept":        {"application/json"},
		"User-Agent":    {"setpoint/1.2"},
		"Authorization": {"Basic dG9tOnBAc3M="},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestNewRejectsBadURLs(t *testing.T) {
	for url, want := range map[string]string{
		"":                        `webhook url "": must begin with http:// or https://`,
		"hook.default/sync":       `webhook url "hook.default/sync": must begin with http:// or https://`,
		"ftp://hook.default/sync": `webhook url "ftp://hook.default/sync": must begin with http:// or https://`,
		"http://":                 `webhook url "http:": has no host`,
		"http://:80/sync":         `webhook url "http://:80/sync": has no host`,
		"http://me:secret@a b/":   `webhook url: invalid character " " in host name`,
		"http://me:secret@/":      `webhook url "http://me:xxxxx@/": has no host`,
	} {
		if _, err := webhook.New(webhook.Config{URL: url}); fmt.Sprint(err) != want {
			t.Errorf("%q: got %v, want %s", url, err, want)
		}
	}
}

// A webhook may name its code, also in an error; since is the first response that does.
func TestCodeOfWebhook(t *testing.T) {
	names := []string{"", "one", "one", "two", strings.Repeat("x", 200)}
	var got []call.Code
	at := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Setpoint-Code", names[at])
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	w := open(t, webhook.Config{URL: server.URL})
	for at = range names {
		ctx, output := call.WithOutput(t.Context())
		_, _ = w.Call(ctx, &hook.Request{Parent: []byte(`{}`)}) // It fails.
		got = append(got, output.Code())
	}
	if got[0].Digest != "" || got[1].Digest != "one" || got[1] != got[2] || got[3].Digest != "two" || got[3].Since.Before(got[2].Since) || got[4].Digest != "" {
		t.Errorf("%+v", got)
	}
}

package webhook_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// A handler's own error is a successful exchange, and is not cached.
func TestHandlerError(t *testing.T) {
	var called []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called = append(called, r.Header.Get("If-None-Match"))
		w.Header().Set("ETag", `"1"`)
		_, _ = w.Write([]byte(`{"error":{"message":"no such currency","permanent":true}}`))
	}))
	t.Cleanup(server.Close)
	var trace []call.Result
	h := open(t, webhook.Config{
		URL: server.URL, ETag: webhook.ETag{Enabled: true},
	}, call.Config{Observe: func(e call.Result) { trace = append(trace, e) }})
	for range 2 {
		resp, err := h.Handle(t.Context(), &hook.HandlerRequest{Reason: hook.ReasonCreate, Object: []byte(`{"kind":"A","metadata":{"name":"a"}}`)})
		if _, terminal := errors.AsType[*hook.TerminalError](err); !terminal || resp != nil || err.Error() != "no such currency" {
			t.Errorf("got %v, %v", resp, err)
		}
	}
	for i, e := range trace {
		if e.HookType != call.Handle || e.Err != nil || e.Code != http.StatusOK || called[i] != "" {
			t.Errorf("exchange %d: %+v, If-None-Match %q", i, e, called[i])
		}
	}
	if len(trace) != 2 {
		t.Errorf("%d exchanges", len(trace))
	}
}

// A failing server or an ambiguous response is an error, not a denial.
func TestAdmit(t *testing.T) {
	for _, c := range []struct {
		name, response string
		code           int
		allowed        bool
		want           string
	}{
		{"allowed", `{"allowed":true}`, http.StatusOK, true, ""},
		{"denied", `{"allowed":false,"message":"no tag"}`, http.StatusOK, false, ""},
		{"nonsense", `yes`, http.StatusOK, false, "malformed response"},
		{"silence", `{}`, http.StatusOK, false, "allowed: required"},
		{"failure", `{"allowed":true}`, http.StatusInternalServerError, false, "500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.response))
			}))
			t.Cleanup(server.Close)
			review, err := open(t, webhook.Config{URL: server.URL}).Admit(t.Context(), &hook.ReviewRequest{Operation: hook.OperationCreate})
			if c.want != "" {
				if err == nil || review != nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, %v", review, err)
				}
				return
			}
			if err != nil || (review.Denial == nil) != c.allowed {
				t.Errorf("got %+v, %v", review, err)
			}
		})
	}
}

// A handler whose connection closes without a response is not called again outside its
// retries. A sync call is repeated, since an idle connection may be dead.
func TestHandlersAreCalledOnce(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 1 {
			_, _ = io.WriteString(w, `{"status": {}, "children": []}`)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}))
	defer server.Close()
	h := open(t, webhook.Config{URL: server.URL})
	must.Get(h.Call(t.Context(), request())).In(t)
	if _, err := h.Handle(t.Context(), &hook.HandlerRequest{}); !hook.IsUnreachable(err) {
		t.Errorf("the handler: %v", err)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

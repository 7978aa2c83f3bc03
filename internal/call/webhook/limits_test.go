package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/heaptest"
)

// valuesServer returns a response that repeats a value up to nearly the size limit.
func valuesServer(before, value, after string) http.HandlerFunc {
	body := []byte(before + strings.Repeat(value+",", (call.DefaultMaxResponseBytes-len(before)-len(after))/(len(value)+1)-1) + value + after)
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }
}

// A response within 32 MiB must not allocate gigabytes.
func TestTooManyValues(t *testing.T) {
	const want = "malformed response: has more than 500000 JSON values"
	const child = `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w"},"data":{"a":[`
	sync := func(ctx context.Context, w *webhook.Webhook) error {
		_, err := w.Call(ctx, request())
		return err
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		call    func(context.Context, *webhook.Webhook) error
	}{
		"in a child":     {valuesServer(child, "{}", "]}}]}"), sync},
		"members":        {valuesServer(child, `{"a":1}`, "]}}]}"), sync},
		"in the status":  {valuesServer(`{"children":[],"status":{"a":[`, "{}", "]}}"), sync},
		"children":       {valuesServer(`{"children":[`, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"}}`, "]}"), sync},
		"unknown fields": {valuesServer(`{"children":[],"other":[`, "0", "]}"), sync},
		"in rules": {valuesServer(`{"relatedResources":[`, `{"apiVersion":"v1","resource":"pods"}`, "]}"), func(ctx context.Context, w *webhook.Webhook) error {
			_, err := w.Customize(ctx, &hook.CustomizeRequest{Parent: request().Parent})
			return err
		}},
		"in a patch": {valuesServer(`{"patch":{"spec":[`, "{}", "]}}"), func(ctx context.Context, w *webhook.Webhook) error {
			_, err := w.Handle(ctx, &hook.HandlerRequest{Object: request().Parent})
			return err
		}},
		"in a review response": {valuesServer(`{"allowed":true,"patch":{"spec":[`, "{}", "]}}"), func(ctx context.Context, w *webhook.Webhook) error {
			_, err := w.Admit(ctx, &hook.ReviewRequest{UID: "1", Object: request().Parent})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			w := open(t, webhook.Config{URL: server.URL, Wire: hook.Wire{Decoding: hook.Loose}, Timeout: time.Minute})
			// Reading stops at too many values. The whole response has 32 MiB, its
			// buffer another 32, and a decoded tree would take gigabytes.
			const most = 40 << 20
			if took := heaptest.Allocated(func() {
				if err := c.call(t.Context(), w); err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("%v", err)
				}
			}); took > most {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}

// A large but legitimate response of 5,000 pods passes.
func TestManyValues(t *testing.T) {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"registry.example/c:1",` +
		`"env":[` + strings.Repeat(`{"name":"A","value":"x"},`, 20) + `{"name":"B","value":"y"}],"ports":[{"containerPort":80}]}]}}`
	server := serveResponse(t, 200, nil, `{"children":[`+strings.Repeat(pod+",", 4999)+pod+`]}`)
	resp, err := open(t, webhook.Config{URL: server.URL, Timeout: time.Minute}).Call(t.Context(), request())
	if err != nil || len(resp.Children) != 5000 {
		t.Errorf("%v", err)
	}
}

// MaxErrorBytes limits the body quoted in events and conditions.
func TestQuotedBody(t *testing.T) {
	server := serveResponse(t, 500, nil, strings.Repeat("no database ", 100))
	for quoted, want := range map[int]string{
		0:  "returned 500 Internal Server Error: " + strings.Repeat("no database ", 100)[:200] + "…",
		11: "returned 500 Internal Server Error: no database…",
		-1: "returned 500 Internal Server Error",
	} {
		w := open(t, webhook.Config{URL: server.URL, Limits: call.Limits{MaxErrorBytes: quoted}})
		if _, err := w.Call(t.Context(), request()); !strings.HasSuffix(fmt.Sprint(err), want) || err == nil {
			t.Errorf("%d bytes: %v", quoted, err)
		}
	}
}

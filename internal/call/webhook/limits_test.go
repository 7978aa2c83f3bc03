package webhook_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook/codec"
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
	for name, handler := range map[string]http.HandlerFunc{
		"in a child":     valuesServer(child, "{}", "]}}]}"),
		"members":        valuesServer(child, `{"a":1}`, "]}}]}"),
		"in the status":  valuesServer(`{"children":[],"status":{"a":[`, "{}", "]}}"),
		"children":       valuesServer(`{"children":[`, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"}}`, "]}"),
		"unknown fields": valuesServer(`{"children":[],"other":[`, "0", "]}"),
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			w := open(t, webhook.Config{URL: server.URL, Timeout: time.Minute}, call.Config{Wire: codec.Wire{Decoding: codec.Loose}})
			// Reading stops at too many values. The whole response has 32 MiB, its
			// buffer another 32, and a decoded tree would take gigabytes.
			const most = 40 << 20
			if took := heaptest.Allocated(func() {
				if _, err := w.Call(t.Context(), request()); err == nil || !strings.HasSuffix(err.Error(), want) {
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
		w := open(t, webhook.Config{URL: server.URL}, call.Config{Limits: call.Limits{MaxErrorBytes: quoted}})
		if _, err := w.Call(t.Context(), request()); !strings.HasSuffix(fmt.Sprint(err), want) || err == nil {
			t.Errorf("%d bytes: %v", quoted, err)
		}
	}
}

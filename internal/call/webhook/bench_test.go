package webhook_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// BenchmarkCall exchanges about 2 KB each way. The result includes the server's work.
func BenchmarkCall(b *testing.B) {
	object := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"v":%q}}`, bytes.Repeat([]byte("x"), 900))
	body := fmt.Appendf(nil, `{"status":{"ready":1},"children":[%s,%s]}`, object, object)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(body)
	}))
	b.Cleanup(server.Close)
	w := open(b, webhook.Config{URL: server.URL})
	req := &hook.Request{
		Controller: object, Parent: object, ParentNamespace: "default",
		Children: []hook.Group{{APIVersion: "v1", Kind: "ConfigMap"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		must.Get(w.Call(b.Context(), req)).In(b)
	}
}

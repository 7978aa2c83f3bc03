package inline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/hook/hooktest"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// repeaters are functions that repeat their request, or respond what it says. The logic of the suite is
// in Go: it sees the first, and the second is its response.
var repeaters = map[string]string{
	"JavaScript": `export function sync({repeat, respond, fail}) {
		if (fail) throw new Error(fail);
		return repeat ?? respond;
	}`,
	"Starlark": `def sync(request):
    if "fail" in request:
        fail(request["fail"])
    return request["repeat"] if "repeat" in request else request["respond"]
`,
}

// repeating calls a repeater twice: a request reaches the logic, and a response the caller, through the engine.
type repeating struct {
	call.Transport
	logic http.Handler
}

func (r repeating) Exchange(ctx context.Context, req *call.Request, result *call.Result) (call.Response, error) {
	repeated, err := r.send(ctx, req, result, map[string]any{"repeat": json.RawMessage(req.Body)})
	if err != nil {
		return call.Response{}, err
	}
	in := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(repeated.Body))
	in.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	r.logic.ServeHTTP(out, in)
	return r.send(ctx, req, result, instructions(out))
}

// instructions make a repeater respond what a server did.
func instructions(out *httptest.ResponseRecorder) map[string]any {
	after, _ := strconv.Atoi(out.Header().Get("Retry-After"))
	switch {
	case after > 0:
		return map[string]any{"respond": map[string]any{"error": out.Body.String(), "retryAfterSeconds": after}}
	case out.Code != http.StatusOK:
		return map[string]any{"fail": out.Body.String()}
	case !json.Valid(out.Body.Bytes()):
		return map[string]any{"respond": map[string]any{"status": "not an object", "relatedResources": 1}}
	}
	return map[string]any{"respond": json.RawMessage(out.Body.Bytes())}
}

func (r repeating) send(ctx context.Context, req *call.Request, result *call.Result, body map[string]any) (call.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return call.Response{}, err
	}
	own := *req
	own.Body = text
	return r.Transport.Exchange(ctx, &own, result)
}

// TestHooks has inline hooks pass the suite of all ways of calling.
func TestHooks(t *testing.T) {
	for language, source := range repeaters {
		t.Run(language, func(t *testing.T) {
			p := must.Get(compileWith(t, child.NewLimiter(0), slog.New(slog.DiscardHandler), language, source)).In(t)
			hooktest.Run(t, func(_ *testing.T, logic http.Handler, wire codec.Wire) hooktest.Caller {
				return call.New(call.Config{Transport: repeating{p.Function("sync", time.Minute), logic}, Wire: wire})
			})
		})
	}
}

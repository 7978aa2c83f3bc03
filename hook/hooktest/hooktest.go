// Package hooktest is the conformance suite for ways of calling a hook.
//
// Run tests one way end to end: requests and responses of all kinds arrive unchanged, and a call that fails, is
// cancelled or takes too long ends with an error that says so. The tests under internal/call use the package, and
// authors of other transports may.
package hooktest

import (
	"bytes"
	"context"
	_ "embed" // for the vectors
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
)

// Caller calls a hook of any kind.
type Caller interface {
	hook.Hook
	hook.Customizer
	hook.Handler
}

// Opener returns a caller of logic through the transport under test. The logic has the form of an HTTP hook. The opener
// registers its cleanup with t.Cleanup.
type Opener func(t *testing.T, logic http.Handler, wire codec.Wire) Caller

// Run runs the suite.
func Run(t *testing.T, open Opener) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			for body, want := range k.responses {
				var got []byte
				caller := open(t, logic(func(r *http.Request) string {
					got, _ = io.ReadAll(r.Body)
					return body
				}), k.wire)
				response, err := k.call(t.Context(), caller)
				if err != nil || text(response) != text(want) {
					t.Errorf("%.100s: got %.200s, %v, want %.200s", body, text(response), err, text(want))
				}
				if text(json.RawMessage(got)) != text(json.RawMessage(k.request)) {
					t.Errorf("the request is %s, want %s", got, k.request)
				}
			}
		})
	}
	for name, test := range map[string]func(*testing.T, Opener){
		"concurrent calls return their own responses": testConcurrentCalls, "failures are errors": testFailures,
		"calls end with their context": testContexts, "a handler's error is its own": testHandlerErrors,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// logic responds with 200 and a text.
func logic(respond func(r *http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := respond(r)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body) // The caller may have disconnected.
	})
}

// text returns a value as JSON without insignificant white space and with the escapes that are optional.
func text(value any) string {
	switch of := value.(type) { // Their JSON lacks some.
	case *hook.Response:
		value = []any{of, of.ResyncAfter}
	case *hook.HandlerResponse:
		value = []any{of, of.Apply, of.RetryAfter}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// kind is a kind of request, and what its responses are decoded to.
type kind struct {
	name      string
	wire      codec.Wire
	request   []byte
	call      func(ctx context.Context, c Caller) (any, error)
	responses map[string]any
}

//go:embed vectors.json
var vectors []byte

// vector has the requests, and the responses by kind.
type vector struct {
	Request        *hook.Request
	HandlerRequest *hook.HandlerRequest
	Responses      map[string][]json.RawMessage
}

func readVector() (v vector) {
	if err := json.Unmarshal(vectors, &v); err != nil {
		panic(err)
	}
	return v
}

func kinds() []kind {
	composite, decorator := codec.Wire{Version: hook.V2}, codec.Wire{Version: hook.V2, ControllerType: hook.Decorator}
	v := readVector()
	v.Responses["composite"] = append(v.Responses["composite"], large())
	customize := &hook.CustomizeRequest{Controller: v.Request.Controller, Parent: v.Request.Parent}
	sync := func(ctx context.Context, c Caller) (any, error) { return c.Call(ctx, v.Request) }
	return []kind{
		{"composite", composite, codec.AppendSyncRequest(nil, v.Request, composite), sync,
			decoded(v.Responses["composite"], codec.DecodeSyncResponse, composite)},
		{"decorator", decorator, codec.AppendSyncRequest(nil, v.Request, decorator), sync,
			decoded(v.Responses["decorator"], codec.DecodeSyncResponse, decorator)},
		{"customize", composite, codec.AppendCustomizeRequest(nil, customize), func(ctx context.Context, c Caller) (any, error) {
			return c.Customize(ctx, customize)
		}, decoded(v.Responses["customize"], codec.DecodeCustomizeResponse, codec.Strict)},
		{"handler", composite, codec.AppendHandlerRequest(nil, v.HandlerRequest), func(ctx context.Context, c Caller) (any, error) {
			return c.Handle(ctx, v.HandlerRequest)
		}, decoded(v.Responses["handler"], codec.DecodeHandlerResponse, codec.Strict)},
	}
}

// decoded returns responses by their bodies.
func decoded[R, Rules any](bodies []json.RawMessage, decode func([]byte, Rules) (R, error), by Rules) map[string]any {
	all := map[string]any{}
	for _, body := range bodies {
		var err error
		if all[string(body)], err = decode(body, by); err != nil {
			panic(err)
		}
	}
	return all
}

func large() json.RawMessage {
	one := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cat"},"data":{"value":"` + strings.Repeat("miaow ", 200) + `"}}`
	return json.RawMessage(`{"children":[` + strings.Repeat(one+",", 1999) + one + `]}`)
}

// newRequest returns a request for a parent with one child and related objects.
func newRequest(name string) *hook.Request {
	request := readVector().Request
	request.Parent = bytes.Replace(request.Parent, []byte("tom"), []byte(name), 1)
	request.Finalizing = false
	return request
}

func testConcurrentCalls(t *testing.T, open Opener) {
	caller := open(t, logic(func(r *http.Request) string {
		var request struct{ Parent json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			return err.Error()
		}
		return `{"children":[],"status":` + string(request.Parent) + `}`
	}), codec.Wire{Version: hook.V2})
	var wg sync.WaitGroup
	for of := range 16 {
		wg.Go(func() {
			for i := range 20 {
				request := newRequest(fmt.Sprintf("cat-%d-%d", of, i))
				response, err := caller.Call(t.Context(), request)
				if err != nil || !bytes.Equal(response.Status, request.Parent) {
					t.Errorf("call %d-%d: %+v, %v", of, i, response, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// testFailures has one caller fail in all ways, and then not.
func testFailures(t *testing.T, open Opener) {
	var respond http.HandlerFunc
	caller := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { respond(w, r) }), codec.Wire{Version: hook.V2})
	call := func() error {
		response, err := caller.Call(t.Context(), newRequest("tom"))
		if (response == nil) != (err != nil) {
			t.Errorf("got %+v and %v", response, err)
		}
		return err
	}
	respond = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the cat is out", http.StatusInternalServerError)
	}
	if err := call(); err == nil || !strings.Contains(err.Error(), "the cat is out") {
		t.Errorf("the error does not say why: %v", err)
	}
	respond = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "asleep", http.StatusTooManyRequests)
	}
	if after, ok := hook.RetryDelay(call()); !ok || after != 7*time.Second {
		t.Errorf("no RetryAfterError with 7s: %s", after)
	}
	respond = logic(func(*http.Request) string { return `{"status":[` }).ServeHTTP
	if err := call(); !hook.IsMalformed(err) {
		t.Errorf("no MalformedError: %v", err)
	}
	respond = logic(func(*http.Request) string { return `{"children":[]}` }).ServeHTTP
	if err := call(); err != nil {
		t.Error(err)
	}
}

// testContexts cancels before and during a call, and lets one take too long.
func testContexts(t *testing.T, open Opener) {
	for name, c := range map[string]struct {
		limit          time.Duration
		before, during bool
		want           error
	}{
		"before": {time.Minute, true, false, context.Canceled}, "during": {time.Minute, false, true, context.Canceled},
		"late": {50 * time.Millisecond, false, false, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			caller := open(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // A server notices only then that the caller is gone.
				if c.during {
					cancel()
				}
				<-r.Context().Done()
			}), codec.Wire{Version: hook.V2})
			if c.before {
				cancel()
			}
			if _, err := caller.Call(ctx, newRequest("tom")); !errors.Is(err, c.want) {
				t.Errorf("got error %v, want %v", err, c.want)
			}
		})
	}
}

func testHandlerErrors(t *testing.T, open Opener) {
	caller := open(t, logic(func(*http.Request) string { return `{"error":{"message":"a dog","permanent":true}}` }),
		codec.Wire{Version: hook.V2})
	_, err := caller.Handle(t.Context(), readVector().HandlerRequest)
	if !hook.IsTerminal(err) || err.Error() != "a dog" {
		t.Errorf("no TerminalError: %v", err)
	}
}

package hooktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// HandlerOpener is an Opener for handlers.
type HandlerOpener func(t *testing.T, logic hook.Handler) hook.Handler

// RunHandler runs the handler suite. It covers what it shares with Run only briefly.
func RunHandler(t *testing.T, open HandlerOpener) {
	runAll(t, open, []check[HandlerOpener]{
		{"request arrives unchanged", handlerRequestArrives},
		{"responses arrive unchanged", handlerResponsesArrive},
		{"concurrent calls return their own responses", concurrentHandlerCalls},
		{"failure is an error that says why", handlerFailureIsError},
		{"RetryAfterError is preserved", handlerRetryLater},
		{"TerminalError is preserved", handlerTerminalError},
		{"malformed response is a MalformedError", malformedHandlerResponse},
		{"cancelled call returns", cancelledHandler},
	})
}

func newHandlerRequest(name string) *hook.HandlerRequest {
	q := newRequest(name)
	return &hook.HandlerRequest{
		Controller:    q.Controller,
		Handler:       "feed",
		Reason:        hook.ReasonUpdate,
		Object:        q.Parent,
		Namespace:     q.ParentNamespace,
		Name:          name,
		PreviousState: json.RawMessage(`{"spec":{"big":1,"text":"\u003cü\u003e"}}`),
		Changes: []hook.FieldChange{
			{Path: "spec.big", From: json.RawMessage(`1`), To: json.RawMessage(`9007199254740993`)},
			{Path: `metadata.annotations["a.b/c"]`, From: json.RawMessage(`{"x":[null]}`), To: json.RawMessage(`"\u2028"`)},
		},
		Owned:   q.Children,
		Attempt: 2,
		Deleted: true,
		DryRun:  true,
	}
}

func handlerRequestArrives(t *testing.T, open HandlerOpener) {
	plain := &hook.HandlerRequest{Handler: "feed", Reason: hook.ReasonCreate, Controller: newHandlerRequest("tom").Controller, Object: json.RawMessage(`{}`)}
	for _, want := range []*hook.HandlerRequest{newHandlerRequest("tom"), plain} {
		var got *hook.HandlerRequest
		h := open(t, hook.HandlerFunc(func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			got = n
			return &hook.HandlerResponse{}, nil
		}))
		before := comparableText(want)
		mustHandle(t, h, want)
		if after := comparableText(want); after != before {
			t.Errorf("the call modified the request: %s", after)
		}
		if diff := diffText(withEmptyLists(got), withEmptyLists(want)); diff != "" {
			t.Errorf("request differs: %s", diff)
		}
	}
}

// withEmptyLists returns a copy with empty lists in place of nil ones.
func withEmptyLists(n *hook.HandlerRequest) *hook.HandlerRequest {
	own := *n
	own.Changes, own.Owned = append([]hook.FieldChange{}, n.Changes...), append([]hook.Group{}, n.Owned...)
	return &own
}

func handlerResponsesArrive(t *testing.T, open HandlerOpener) {
	for name, want := range map[string]hook.HandlerResponse{
		"nothing": {},
		"patch":   {Patch: json.RawMessage(`{"spec":{"big":9007199254740993,"none":null},"metadata":{"labels":{"a":null}}}`)},
		"status":  {Status: json.RawMessage(`{"text":"\u2028 ü \"quoted\"","none":null}`)},
		"apply":   {Apply: []hook.AppliedObject{{Object: child("b", "1")}, {Object: child("a", "2"), Unowned: true}}},
		"delete": {Delete: []hook.Deletion{
			{APIVersion: "v1", Kind: "Pod", Name: "a", Evict: true}, {APIVersion: "apps/v1", Kind: "Deployment", Namespace: "b", Selector: "app in (x,y)"},
		}},
		"events and conditions": {
			Message:    "3 of 5 \"cats\" are home",
			Events:     []hook.Event{{Type: "Warning", Reason: "Hungry", Message: "no food"}},
			Conditions: []hook.Condition{{Type: "Ready", Status: "False", Reason: "Hungry", Message: "no food"}},
		},
		"not done yet": {RetryAfter: 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustHandle(t, open(t, handleWith(want, nil)), newHandlerRequest("tom"))
			if diff := diffText(got, &want); diff != "" {
				t.Errorf("response differs: %s", diff)
			}
		})
	}
}

func concurrentHandlerCalls(t *testing.T, open HandlerOpener) {
	const callers = 16
	h := open(t, hook.HandlerFunc(func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return &hook.HandlerResponse{Message: n.Name}, nil
	}))
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			name := fmt.Sprintf("cat-%d", caller)
			response, err := h.Handle(t.Context(), newHandlerRequest(name))
			if err != nil || response.Message != name {
				t.Errorf("%s got %v, %v", name, response, err)
			}
		})
	}
	wg.Wait()
}

func handlerFailureIsError(t *testing.T, open HandlerOpener) {
	err := mustFailToHandle(t, open(t, handleWith(hook.HandlerResponse{}, errors.New("the cat is out"))))
	if !strings.Contains(err.Error(), "the cat is out") {
		t.Errorf("error does not say why: %v", err)
	}
}

func handlerRetryLater(t *testing.T, open HandlerOpener) {
	err := mustFailToHandle(t, open(t, handleWith(hook.HandlerResponse{}, &hook.RetryAfterError{After: 7 * time.Second, Err: errors.New("asleep")})))
	if later, ok := errors.AsType[*hook.RetryAfterError](err); !ok || later.After != 7*time.Second {
		t.Errorf("no RetryAfterError with 7s: %v", err)
	}
}

func handlerTerminalError(t *testing.T, open HandlerOpener) {
	err := mustFailToHandle(t, open(t, handleWith(hook.HandlerResponse{}, &hook.TerminalError{Err: errors.New("a dog")})))
	if _, ok := errors.AsType[*hook.TerminalError](err); !ok || err.Error() != "a dog" {
		t.Errorf("no TerminalError: %v", err)
	}
}

func malformedHandlerResponse(t *testing.T, open HandlerOpener) {
	err := mustFailToHandle(t, open(t, handleWith(hook.HandlerResponse{}, &hook.MalformedError{Err: errors.New("miaow")})))
	if _, ok := errors.AsType[*hook.MalformedError](err); !ok {
		t.Errorf("no MalformedError: %v", err)
	}
}

func cancelledHandler(t *testing.T, open HandlerOpener) {
	ctx, cancel := context.WithCancel(t.Context())
	h := open(t, hook.HandlerFunc(func(ctx context.Context, _ *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	if _, err := h.Handle(ctx, newHandlerRequest("tom")); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// handleWith returns a handler with a fixed result.
func handleWith(response hook.HandlerResponse, err error) hook.Handler {
	return hook.HandlerFunc(func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if err != nil {
			return nil, err
		}
		own := response
		return &own, nil
	})
}

func mustHandle(t *testing.T, h hook.Handler, n *hook.HandlerRequest) *hook.HandlerResponse {
	t.Helper()
	response, err := h.Handle(t.Context(), n)
	if err != nil || response == nil {
		t.Fatalf("got response %v and error %v", response, err)
	}
	return response
}

func mustFailToHandle(t *testing.T, h hook.Handler) error {
	t.Helper()
	response, err := h.Handle(t.Context(), newHandlerRequest("tom"))
	if err == nil || response != nil {
		t.Fatalf("got response %v and error %v", response, err)
	}
	return err
}

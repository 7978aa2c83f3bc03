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

func concurrentCallers(t *testing.T, open Opener) {
	const callers, calls = 16, 20
	h := open(t, hook.Func(func(_ context.Context, req *hook.Request) (*hook.Response, error) {
		return &hook.Response{Children: []json.RawMessage{child(parentName(req), "x")}}, nil
	}))
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range calls {
				name := fmt.Sprintf("cat-%d-%d", caller, i)
				resp, err := h.Call(t.Context(), newRequest(name))
				if err != nil {
					t.Errorf("call %s: %v", name, err)
					return
				}
				expectResponse(t, resp, &hook.Response{Children: []json.RawMessage{child(name, "x")}})
			}
		})
	}
	wg.Wait()
}

func failureIsError(t *testing.T, open Opener) {
	h := open(t, failWith(errors.New("the cat is out")))
	if err := mustFail(t, h); !strings.Contains(err.Error(), "the cat is out") {
		t.Errorf("error does not say why: %v", err)
	}
}

func failureDoesNotPersist(t *testing.T, open Opener) {
	failed := false
	h := open(t, hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
		if !failed {
			failed = true
			return nil, errors.New("not yet")
		}
		return &hook.Response{Finalized: true}, nil
	}))
	mustFail(t, h)
	expectResponse(t, mustCall(t, h, newRequest("tom")), &hook.Response{Finalized: true})
}

func retryLater(t *testing.T, open Opener) {
	h := open(t, failWith(&hook.RetryAfterError{After: 7 * time.Second, Err: errors.New("asleep")}))
	err := mustFail(t, h)
	var later *hook.RetryAfterError
	if !errors.As(err, &later) {
		t.Fatalf("no RetryAfterError: %v", err)
	}
	if later.After != 7*time.Second {
		t.Errorf("RetryAfter is %v, want 7s", later.After)
	}
}

func malformedResponse(t *testing.T, open Opener) {
	h := open(t, failWith(&hook.MalformedError{Err: errors.New("miaow")}))
	err := mustFail(t, h)
	if _, ok := errors.AsType[*hook.MalformedError](err); !ok {
		t.Errorf("no MalformedError: %v", err)
	}
}

// cancelledCall cancels during the call.
func cancelledCall(t *testing.T, open Opener) {
	ctx, cancel := context.WithCancel(t.Context())
	h := open(t, blockUntilDone(cancel))
	_, err := h.Call(ctx, newRequest("tom"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func callAfterCancellation(t *testing.T, open Opener) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := open(t, blockUntilDone(func() {}))
	if _, err := h.Call(ctx, newRequest("tom")); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func deadlineExceeded(t *testing.T, open Opener) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	h := open(t, blockUntilDone(func() {}))
	if _, err := h.Call(ctx, newRequest("tom")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want %v", err, context.DeadlineExceeded)
	}
}

func failWith(err error) hook.Hook {
	return hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) { return nil, err })
}

// blockUntilDone returns a hook that calls called and then blocks until ctx is done.
func blockUntilDone(called func()) hook.Hook {
	return hook.Func(func(ctx context.Context, _ *hook.Request) (*hook.Response, error) {
		called()
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

func mustFail(t *testing.T, h hook.Hook) error {
	t.Helper()
	resp, err := h.Call(t.Context(), newRequest("tom"))
	if err == nil {
		t.Fatal("no error")
	}
	if resp != nil {
		t.Fatalf("a response with the error %v", err)
	}
	return err
}

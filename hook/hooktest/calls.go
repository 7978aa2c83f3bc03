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
				resp, err := h.Call(t.Context(), question(name))
				if err != nil {
					t.Errorf("call %s: %v", name, err)
					return
				}
				sameAnswer(t, resp, &hook.Response{Children: []json.RawMessage{child(name, "x")}})
			}
		})
	}
	wg.Wait()
}

func failureIsError(t *testing.T, open Opener) {
	h := open(t, failing(errors.New("the cat is out")))
	if err := mustFail(t, h); !strings.Contains(err.Error(), "the cat is out") {
		t.Errorf("error does not say why: %v", err)
	}
}

func failureEnds(t *testing.T, open Opener) {
	failed := false
	h := open(t, hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
		if !failed {
			failed = true
			return nil, errors.New("not yet")
		}
		return &hook.Response{Finalized: true}, nil
	}))
	mustFail(t, h)
	sameAnswer(t, mustCall(t, h, question("tom")), &hook.Response{Finalized: true})
}

func retryLater(t *testing.T, open Opener) {
	h := open(t, failing(&hook.RetryAfterError{After: 7 * time.Second, Err: errors.New("asleep")}))
	err := mustFail(t, h)
	var later *hook.RetryAfterError
	if !errors.As(err, &later) {
		t.Fatalf("no wish to be asked later: %v", err)
	}
	if later.After != 7*time.Second {
		t.Errorf("asked to wait %v, want 7s", later.After)
	}
}

func malformedAnswer(t *testing.T, open Opener) {
	h := open(t, failing(&hook.MalformedError{Err: errors.New("miaow")}))
	err := mustFail(t, h)
	if _, ok := errors.AsType[*hook.MalformedError](err); !ok {
		t.Errorf("not told as malformed: %v", err)
	}
}

// cancelledCall cancels while the hook thinks.
func cancelledCall(t *testing.T, open Opener) {
	ctx, cancel := context.WithCancel(t.Context())
	h := open(t, thinking(cancel))
	_, err := h.Call(ctx, question("tom"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func callAfterCancellation(t *testing.T, open Opener) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := open(t, thinking(func() {}))
	if _, err := h.Call(ctx, question("tom")); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func deadlineIsKept(t *testing.T, open Opener) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	h := open(t, thinking(func() {}))
	if _, err := h.Call(ctx, question("tom")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want %v", err, context.DeadlineExceeded)
	}
}

func failing(err error) hook.Hook {
	return hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) { return nil, err })
}

// thinking is logic that says when it was asked and answers only when it is no
// longer wanted.
func thinking(asked func()) hook.Hook {
	return hook.Func(func(ctx context.Context, _ *hook.Request) (*hook.Response, error) {
		asked()
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

func mustFail(t *testing.T, h hook.Hook) error {
	t.Helper()
	resp, err := h.Call(t.Context(), question("tom"))
	if err == nil {
		t.Fatal("no error")
	}
	if resp != nil {
		t.Fatalf("a response beside the error %v", err)
	}
	return err
}

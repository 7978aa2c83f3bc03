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

// call is a hook, a customizer or a handler as a function.
type call[Q, R any] func(ctx context.Context, request *Q) (*R, error)

// suite tests a transport for requests Q and responses R.
type suite[Q, R any] struct {
	open func(t *testing.T, logic call[Q, R]) call[Q, R]
	// newRequest returns a request for an object of a name, and requests are others that
	// must arrive.
	newRequest func(name string) *Q
	requests   []*Q
	// responses are those that must arrive, and echo returns one that depends on the
	// request.
	responses map[string]R
	echo      func(request *Q) *R
}

func (s suite[Q, R]) run(t *testing.T) {
	runAll(t, []check{
		{"request arrives unchanged", s.requestArrives},
		{"responses arrive unchanged", s.responsesArrive},
		{"concurrent calls return their own responses", s.concurrentCallers},
		{"failure is an error that says why", s.failureIsError},
		{"failure does not persist", s.failureDoesNotPersist},
		{"RetryAfterError is preserved", s.retryLater},
		{"malformed response is a MalformedError", s.malformedResponse},
		{"cancelled call returns", s.cancelledCall},
		{"call after cancellation returns", s.callAfterCancellation},
		{"deadline is respected", s.deadlineExceeded},
	})
}

// check is one named test of a suite.
type check struct {
	name string
	test func(t *testing.T)
}

func runAll(t *testing.T, checks []check) {
	for _, c := range checks {
		t.Run(c.name, c.test)
	}
}

func (s suite[Q, R]) requestArrives(t *testing.T) {
	for _, request := range append(s.requests, s.newRequest("tom")) {
		want := comparableText(request)
		var got *Q
		do := s.open(t, func(_ context.Context, request *Q) (*R, error) {
			got = request
			return new(R), nil
		})
		mustCall(t, do, request)
		if diff := diffText(comparableText(request), want); diff != "" {
			t.Errorf("the call modified the request: %s", diff)
		}
		if diff := diffText(comparableText(got), want); diff != "" {
			t.Errorf("request differs: %s", diff)
		}
	}
}

func (s suite[Q, R]) responsesArrive(t *testing.T) {
	for name, want := range s.responses {
		t.Run(name, func(t *testing.T) {
			expectResponse(t, mustCall(t, s.open(t, respondWith[Q](want)), s.newRequest("tom")), &want)
		})
	}
}

func (s suite[Q, R]) concurrentCallers(t *testing.T) {
	const callers, calls = 16, 20
	do := s.open(t, func(_ context.Context, request *Q) (*R, error) { return s.echo(request), nil })
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range calls {
				request := s.newRequest(fmt.Sprintf("cat-%d-%d", caller, i))
				response, err := do(t.Context(), request)
				if err != nil {
					t.Errorf("call %d-%d: %v", caller, i, err)
					return
				}
				expectResponse(t, response, s.echo(request))
			}
		})
	}
	wg.Wait()
}

func (s suite[Q, R]) failureIsError(t *testing.T) {
	if err := s.failure(t, errors.New("the cat is out")); !strings.Contains(err.Error(), "the cat is out") {
		t.Errorf("error does not say why: %v", err)
	}
}

func (s suite[Q, R]) failureDoesNotPersist(t *testing.T) {
	failed := false
	do := s.open(t, func(context.Context, *Q) (*R, error) {
		if !failed {
			failed = true
			return nil, errors.New("not yet")
		}
		return new(R), nil
	})
	s.mustFail(t, do)
	expectResponse(t, mustCall(t, do, s.newRequest("tom")), new(R))
}

func (s suite[Q, R]) retryLater(t *testing.T) {
	err := s.failure(t, &hook.RetryAfterError{After: 7 * time.Second, Err: errors.New("asleep")})
	if after, ok := hook.RetryDelay(err); !ok || after != 7*time.Second {
		t.Errorf("no RetryAfterError with 7s: %v", err)
	}
}

func (s suite[Q, R]) malformedResponse(t *testing.T) {
	if err := s.failure(t, &hook.MalformedError{Err: errors.New("miaow")}); !hook.IsMalformed(err) {
		t.Errorf("no MalformedError: %v", err)
	}
}

// cancelledCall cancels during the call.
func (s suite[Q, R]) cancelledCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s.expectEnd(ctx, t, context.Canceled, cancel)
}

func (s suite[Q, R]) callAfterCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.expectEnd(ctx, t, context.Canceled, func() {})
}

func (s suite[Q, R]) deadlineExceeded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.expectEnd(ctx, t, context.DeadlineExceeded, func() {})
}

// expectEnd calls logic that calls called and then blocks until its context is done.
func (s suite[Q, R]) expectEnd(ctx context.Context, t *testing.T, want error, called func()) {
	t.Helper()
	do := s.open(t, func(ctx context.Context, _ *Q) (*R, error) {
		called()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if _, err := do(ctx, s.newRequest("tom")); !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// failure returns the error of a call whose logic fails.
func (s suite[Q, R]) failure(t *testing.T, err error) error {
	t.Helper()
	return s.mustFail(t, s.open(t, func(context.Context, *Q) (*R, error) { return nil, err }))
}

func (s suite[Q, R]) mustFail(t *testing.T, do call[Q, R]) error {
	t.Helper()
	response, err := do(t.Context(), s.newRequest("tom"))
	if err == nil {
		t.Fatal("no error")
	}
	if response != nil {
		t.Fatalf("a response with the error %v", err)
	}
	return err
}

// respondWith returns logic with a fixed response.
func respondWith[Q, R any](response R) call[Q, R] {
	return func(context.Context, *Q) (*R, error) {
		own := response
		return &own, nil
	}
}

func mustCall[Q, R any](t *testing.T, do call[Q, R], request *Q) *R {
	t.Helper()
	response, err := do(t.Context(), request)
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	if response == nil {
		t.Fatal("neither a response nor an error")
	}
	return response
}

func expectResponse(t *testing.T, got, want any) {
	t.Helper()
	if diff := diffText(comparableText(got), comparableText(want)); diff != "" {
		t.Errorf("response differs: %s", diff)
	}
}

// diffText returns an excerpt around the first difference, or "".
func diffText(got, want string) string {
	if got == want {
		return ""
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	from := max(0, at-40)
	return fmt.Sprintf("got …%.120s, want …%.120s", got[from:], want[from:])
}

// comparableText returns a value as JSON text, without insignificant white space and with
// empty lists in place of nil ones.
func comparableText(v any) string {
	switch o := v.(type) {
	case *hook.Response:
		v = []any{o, o.ResyncAfter} // Its JSON lacks the delay.
	case *hook.HandlerResponse:
		v = []any{o, o.Apply, o.RetryAfter}
	case *hook.CustomizeResponse:
		v = append([]hook.RelatedRule{}, o.Related...)
	case *hook.HandlerRequest:
		own := *o
		own.Changes, own.Owned = append([]hook.FieldChange{}, o.Changes...), append([]hook.Group{}, o.Owned...)
		v = own
	}
	// Marshal compacts and validates a RawMessage.
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

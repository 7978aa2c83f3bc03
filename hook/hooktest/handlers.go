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

// HandlerOpener is Opener for a handler.
type HandlerOpener func(t *testing.T, logic hook.Handler) hook.Handler

// RunHandler runs the suite for handlers. What it has in common with Run is asked
// in brief.
func RunHandler(t *testing.T, open HandlerOpener) {
	runAll(t, open, []check[HandlerOpener]{
		{"notice arrives unchanged", noticeArrives},
		{"answers arrive unchanged", answersToNoticesArrive},
		{"concurrent notices get their own answers", concurrentNotices},
		{"failure is an error that says why", handlerFailureIsError},
		{"wish to retry later is kept", handlerRetryLater},
		{"permanent failure is kept", handlerFailsForGood},
		{"malformed answer is told as such", malformedAnswerToNotice},
		{"cancelled call returns", cancelledHandler},
	})
}

func notice(name string) *hook.Notice {
	q := question(name)
	return &hook.Notice{
		Controller: q.Controller,
		Handler:    "feed",
		Reason:     hook.ReasonUpdate,
		Object:     q.Parent,
		Namespace:  q.ParentNamespace,
		Name:       name,
		Old:        json.RawMessage(`{"spec":{"big":1,"text":"\u003cü\u003e"}}`),
		Changes: []hook.FieldChange{
			{Path: "spec.big", Old: json.RawMessage(`1`), New: json.RawMessage(`9007199254740993`)},
			{Path: `metadata.annotations["a.b/c"]`, Old: json.RawMessage(`{"x":[null]}`), New: json.RawMessage(`"\u2028"`)},
		},
		Owned:   q.Children,
		Attempt: 2,
		Gone:    true,
		DryRun:  true,
	}
}

func noticeArrives(t *testing.T, open HandlerOpener) {
	plain := &hook.Notice{Handler: "feed", Reason: hook.ReasonCreate, Controller: notice("tom").Controller, Object: json.RawMessage(`{}`)}
	for _, want := range []*hook.Notice{notice("tom"), plain} {
		var got *hook.Notice
		h := open(t, hook.HandlerFunc(func(_ context.Context, n *hook.Notice) (*hook.Answer, error) {
			got = n
			return &hook.Answer{}, nil
		}))
		before := text(want)
		mustHandle(t, h, want)
		if after := text(want); after != before {
			t.Errorf("the call changed its notice: %s", after)
		}
		if diff := differ(noticed(got), noticed(want)); diff != "" {
			t.Errorf("the handler was told something else: %s", diff)
		}
	}
}

// noticed is a notice with no lists as empty ones.
func noticed(n *hook.Notice) *hook.Notice {
	own := *n
	own.Changes, own.Owned = append([]hook.FieldChange{}, n.Changes...), append([]hook.Group{}, n.Owned...)
	return &own
}

func answersToNoticesArrive(t *testing.T, open HandlerOpener) {
	for name, want := range map[string]hook.Answer{
		"nothing": {},
		"patch":   {Patch: json.RawMessage(`{"spec":{"big":9007199254740993,"none":null},"metadata":{"labels":{"a":null}}}`)},
		"status":  {Status: json.RawMessage(`{"text":"\u2028 ü \"quoted\"","none":null}`)},
		"apply":   {Apply: []hook.Applied{{Object: child("b", "1")}, {Object: child("a", "2"), Unowned: true}}},
		"delete": {Delete: []hook.Deletion{
			{APIVersion: "v1", Kind: "Pod", Name: "a", Evict: true}, {APIVersion: "apps/v1", Kind: "Deployment", Namespace: "b", Selector: "app in (x,y)"},
		}},
		"told": {
			Message:    "3 of 5 \"cats\" are home",
			Events:     []hook.Event{{Type: "Warning", Reason: "Hungry", Message: "no food"}},
			Conditions: []hook.Condition{{Type: "Ready", Status: "False", Reason: "Hungry", Message: "no food"}},
		},
		"not done yet": {RetryAfter: 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustHandle(t, open(t, handling(want, nil)), notice("tom"))
			if diff := differ(got, &want); diff != "" {
				t.Errorf("answer differs: %s", diff)
			}
		})
	}
}

func concurrentNotices(t *testing.T, open HandlerOpener) {
	const callers = 16
	h := open(t, hook.HandlerFunc(func(_ context.Context, n *hook.Notice) (*hook.Answer, error) {
		return &hook.Answer{Message: n.Name}, nil
	}))
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			name := fmt.Sprintf("cat-%d", caller)
			answer, err := h.Handle(t.Context(), notice(name))
			if err != nil || answer.Message != name {
				t.Errorf("%s got %v, %v", name, answer, err)
			}
		})
	}
	wg.Wait()
}

func handlerFailureIsError(t *testing.T, open HandlerOpener) {
	err := mustFailToHandle(t, open(t, handling(hook.Answer{}, errors.New("the cat is out"))))
	if !strings.Contains(err.Error(), "the cat is out") {
		t.Errorf("error does not say why: %v", err)
	}
}

func handlerRetryLater(t *testing.T, open HandlerOpener) {
	err := mustFailToHandle(t, open(t, handling(hook.Answer{}, &hook.RetryAfterError{After: 7 * time.Second, Err: errors.New("asleep")})))
	if later, ok := errors.AsType[*hook.RetryAfterError](err); !ok || later.After != 7*time.Second {
		t.Errorf("no wish to be told in 7s: %v", err)
	}
}

func handlerFailsForGood(t *testing.T, open HandlerOpener) {
	err := mustFailToHandle(t, open(t, handling(hook.Answer{}, &hook.TerminalError{Err: errors.New("a dog")})))
	if _, ok := errors.AsType[*hook.TerminalError](err); !ok || err.Error() != "a dog" {
		t.Errorf("not told as permanent: %v", err)
	}
}

func malformedAnswerToNotice(t *testing.T, open HandlerOpener) {
	err := mustFailToHandle(t, open(t, handling(hook.Answer{}, &hook.MalformedError{Err: errors.New("miaow")})))
	if _, ok := errors.AsType[*hook.MalformedError](err); !ok {
		t.Errorf("not told as malformed: %v", err)
	}
}

func cancelledHandler(t *testing.T, open HandlerOpener) {
	ctx, cancel := context.WithCancel(t.Context())
	h := open(t, hook.HandlerFunc(func(ctx context.Context, _ *hook.Notice) (*hook.Answer, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	if _, err := h.Handle(ctx, notice("tom")); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// handling is logic that always says the same.
func handling(answer hook.Answer, err error) hook.Handler {
	return hook.HandlerFunc(func(context.Context, *hook.Notice) (*hook.Answer, error) {
		if err != nil {
			return nil, err
		}
		own := answer
		return &own, nil
	})
}

func mustHandle(t *testing.T, h hook.Handler, n *hook.Notice) *hook.Answer {
	t.Helper()
	answer, err := h.Handle(t.Context(), n)
	if err != nil || answer == nil {
		t.Fatalf("got answer %v and error %v", answer, err)
	}
	return answer
}

func mustFailToHandle(t *testing.T, h hook.Handler) error {
	t.Helper()
	answer, err := h.Handle(t.Context(), notice("tom"))
	if err == nil || answer != nil {
		t.Fatalf("got answer %v and error %v", answer, err)
	}
	return err
}

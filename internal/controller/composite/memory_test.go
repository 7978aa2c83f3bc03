package composite

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// An up-to-date child has to be compared again when its spec or its desired state changes, but not
// when a kind with generations updates its status.
func TestUpToDateChildren(t *testing.T) {
	const counted = `{"kind":"Pod","metadata":{"name":"c","uid":"c-1","generation":2,"labels":{"a":"1"}},"status":{"phase":"Pending"}}`
	const plain = `{"kind":"ConfigMap","metadata":{"name":"c","uid":"c-1","resourceVersion":"1"},"data":{"a":"1"}}`
	for name, c := range map[string]struct {
		child, old, new string
		desired         uint64
		agreed          bool
	}{
		"same":                  {counted, "", "", 9, true},
		"another desired state": {counted, "", "", 8, false},
		"status":                {counted, "Pending", "Running", 9, true},
		"edited":                {counted, `"generation":2`, `"generation":3`, 9, false},
		"labelled":              {counted, `"a":"1"`, `"a":"2"`, 9, false},
		"another of its UID":    {counted, `c-1`, `c-2`, 9, false},
		"plain, same":           {plain, `"resourceVersion":"1"`, `"resourceVersion":"2"`, 9, true},
		"plain, edited":         {plain, `"a":"1"`, `"a":"2"`, 9, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			m.upToDate.add(parse(t, c.child), 9)
			if got := m.upToDate.contains(parse(t, strings.Replace(c.child, c.old, c.new, 1)), c.desired); got != c.agreed {
				t.Errorf("agreed: %v", got)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	malformed := &hook.MalformedError{Path: "children", Err: errors.New("required")}
	delayed := &hook.RetryAfterError{After: time.Minute, Err: errors.New("busy")}
	for name, c := range map[string]struct {
		err    error
		reason string
		ofHook bool
		delay  time.Duration
	}{
		"malformed": {hookFailure("sync", malformed), ReasonInvalidResponse, true, 0},
		"hook":      {hookFailure("sync", errors.New("refused")), ReasonHookFailed, true, 0},
		"later":     {hookFailure("sync", delayed), ReasonHookFailed, true, time.Minute},
		"write":     {failure.WithReason(controller.ReasonWriteFailed, errors.New("quota")), controller.ReasonWriteFailed, false, 0},
		"unnamed":   {errors.New("read it"), controller.ReasonWriteFailed, false, 0},
		"joined":    {errors.Join(hookFailure("sync", malformed), failure.WithReason(controller.ReasonWriteFailed, errors.New("status"))), ReasonInvalidResponse, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("wrapped: %w", c.err)
			delay, postponed := hook.RetryDelay(err)
			if controller.ReasonOf(err) != c.reason || isHookFailure(err) != c.ofHook || delay != c.delay || postponed != (c.delay > 0) {
				t.Errorf("got %s, of hook %v, %v", controller.ReasonOf(err), isHookFailure(err), delay)
			}
			if !errors.Is(err, errors.Unwrap(err)) || err.Error() == "" {
				t.Errorf("%v does not say what happened", err)
			}
		})
	}
}

func TestErrorsThatNameManagedFields(t *testing.T) {
	looks, other := errors.New("returned 500: KeyError: 'managedFields'"), errors.New("returned 500")
	for _, c := range []struct {
		program Program
		err     error
		tells   bool
	}{{Program{}, looks, true}, {Program{FullObjects: true}, looks, false}, {Program{}, other, false}} {
		err := c.program.explainMissing(c.err)
		if strings.Contains(err.Error(), "setpoint.dev/full-objects") != c.tells || !errors.Is(err, c.err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestJoinErrors(t *testing.T) {
	quota := errors.New("quota")
	for name, c := range map[string]struct {
		errs []error
		want string
	}{
		"none":           {nil, "<nil>"},
		"nothing wrong":  {[]error{nil, nil}, "<nil>"},
		"a real one":     {[]error{quota, nil}, "quota"},
		"moved":          {[]error{controller.ErrConflict, controller.ErrConflict}, controller.ErrConflict.Error()},
		"moved and more": {[]error{controller.ErrConflict, quota, controller.ErrConflict}, "quota"},
	} {
		if got := fmt.Sprint(joinErrors(c.errs)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestNameWaitersDropDeletedParents(t *testing.T) {
	c := &Controller{}
	name, other := childName{name: "a"}, childName{name: "b"}
	one, two := queue.Key{Name: "one"}, queue.Key{Name: "two"}
	c.addNameWaiter(name, one)
	c.addNameWaiter(name, two)
	c.addNameWaiter(other, one)
	c.dropNameWaiter(one)
	if left := c.nameWaiters.Get(other); left != nil {
		t.Errorf("still %v", left)
	}
	if got := c.nameWaiters.Take(name); len(got) != 1 || !got[two] || len(c.nameWaiters.Take(name)) != 0 {
		t.Errorf("took %v", got)
	}
}

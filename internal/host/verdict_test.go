package host

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(`User "x" cannot list resource "pods"`))
}

func notServed() error { return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "") }

func TestVerdict(t *testing.T) {
	running := engine.Health{Synced: true, Parents: 4}
	with := func(change func(*engine.Health)) engine.Health {
		h := running
		change(&h)
		return h
	}
	const understood, answers = "the spec is understood and the kinds it names are served", "caches are synced and no call fails"
	const seeAccepted = "see the condition Accepted"
	const partly = "caches are synced; calls fail for some objects: sync hook: refused"
	fine, declared := finding{true, setpoint.ReasonAccepted, understood}, state{object: controllerObject(t, `{"name":"a"}`)}
	failing := func(of, some int) engine.Health {
		return with(func(h *engine.Health) {
			h.Parents, h.InError, h.HookFailing, h.HookMessage = of, some, some, "sync hook: refused"
		})
	}
	for name, c := range map[string]struct {
		refusal         error
		notes           []string
		state           state
		health          engine.Health
		accepted, ready finding
	}{
		"all is well": {health: running,
			accepted: finding{true, setpoint.ReasonAccepted, understood}, ready: finding{true, setpoint.ReasonReady, answers}},
		"notes": {health: running, notes: []string{"one", "two"},
			accepted: finding{true, setpoint.ReasonAccepted, understood + "; note: one; two"}, ready: finding{true, setpoint.ReasonReady, answers}},
		"refused": {refusal: fmt.Errorf("compile: %w", &compile.Refusal{Reason: setpoint.ReasonInvalidSpec, Err: errors.New("spec.x: no such thing")}),
			accepted: finding{false, setpoint.ReasonInvalidSpec, "spec.x: no such thing"}, ready: finding{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"suspended": {state: state{suspended: true},
			accepted: finding{true, setpoint.ReasonAccepted, understood},
			ready:    finding{false, setpoint.ReasonSuspended, "suspended by spec: objects stay as they are, and no hook is called"}},
		"refused and suspended": {state: state{suspended: true}, refusal: &compile.Refusal{Reason: setpoint.ReasonInvalidSpec, Err: errors.New("no")},
			accepted: finding{false, setpoint.ReasonInvalidSpec, "no"}, ready: finding{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"leaving": {state: state{leaving: "removing"},
			accepted: finding{true, setpoint.ReasonAccepted, understood}, ready: finding{false, setpoint.ReasonReleasing, "removing"}},
		"refused while the former runs": {refusal: &compile.Refusal{Reason: setpoint.ReasonInvalidSpec, Err: errors.New("no")}, health: running,
			accepted: finding{false, setpoint.ReasonInvalidSpec, "no"}, ready: finding{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"starting": {
			accepted: finding{true, setpoint.ReasonAccepted, understood}, ready: finding{false, setpoint.ReasonStarting, "the caches are being filled"}},
		"forbidden": {health: with(func(h *engine.Health) {
			h.Synced, h.WatchErrors = false, map[string]error{"pods.v1": forbidden(), "z": errors.New("refused")}
		}),
			accepted: finding{false, setpoint.ReasonForbidden, `may not list and watch pods.v1: pods is forbidden: User "x" cannot list resource "pods"; grant it to Setpoint`},
			ready:    finding{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"not served any more": {health: with(func(h *engine.Health) { h.WatchErrors = map[string]error{"pods.v1": notServed()} }),
			accepted: finding{false, setpoint.ReasonResourceNotFound, "pods.v1 is not served any more"}, ready: finding{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"server away": {health: with(func(h *engine.Health) {
			h.WatchErrors = map[string]error{"pods.v1": errors.New("connection refused"), "configmaps.v1": errors.New("timed out")}
		}),
			accepted: finding{true, setpoint.ReasonAccepted, understood}, ready: finding{false, setpoint.ReasonWatchFailing, "watch configmaps.v1: timed out"}},
		"hook fails for all":          {state: declared, health: failing(4, 4), accepted: fine, ready: finding{false, setpoint.ReasonHookFailing, "sync hook: refused"}},
		"hook fails for all but one":  {state: declared, health: failing(4, 3), accepted: fine, ready: finding{true, setpoint.ReasonReady, partly}},
		"hook fails for one":          {state: declared, health: failing(4, 1), accepted: fine, ready: finding{true, setpoint.ReasonReady, partly}},
		"hook fails for the only one": {state: declared, health: failing(1, 1), accepted: fine, ready: finding{false, setpoint.ReasonHookFailing, "sync hook: refused"}},
		"hook fails for nine in ten":  {state: declared, health: failing(100, 90), accepted: fine, ready: finding{true, setpoint.ReasonReady, partly}},
		"hook fails for nearly all":   {state: declared, health: failing(100, 91), accepted: fine, ready: finding{false, setpoint.ReasonHookFailing, "sync hook: refused"}},
		"the process of the hook is dead": {state: declared, health: with(func(h *engine.Health) { h.HookDown = "process hook: ended with exit code 1" }),
			accepted: fine, ready: finding{false, setpoint.ReasonHookUnreachable, "process hook: ended with exit code 1"}},
		"dead, with calls that fail": {state: declared, health: with(func(h *engine.Health) { h.HookDown, h.HookFailing, h.Unconnected = "dead", 4, "refused" }),
			accepted: fine, ready: finding{false, setpoint.ReasonHookUnreachable, "dead"}},
		"dead and suspended": {state: state{suspended: true}, health: with(func(h *engine.Health) { h.HookDown = "dead" }), accepted: fine,
			ready: finding{false, setpoint.ReasonSuspended, "suspended by spec: objects stay as they are, and no hook is called"}},
		"the latest call got no connection": {state: declared, health: with(func(h *engine.Health) {
			h.Parents, h.HookFailing, h.HookMessage, h.Unconnected = 100, 1, "sync hook: refused", "POST http://hook/sync: connection refused"
		}),
			accepted: fine, ready: finding{false, setpoint.ReasonHookFailing, "the latest call got no connection: POST http://hook/sync: connection refused"}},
		"no connection, for a parent that is gone": {state: declared, health: with(func(h *engine.Health) { h.Unconnected = "refused" }),
			accepted: fine, ready: finding{true, setpoint.ReasonReady, answers}},
		"handlers fail for all": {health: failing(1, 1), accepted: fine, ready: finding{false, "HandlerFailing", "sync hook: refused"}},
		"handlers fail for one": {health: failing(2, 1), accepted: fine, ready: finding{true, setpoint.ReasonReady, partly}},
		"writes fail": {health: with(func(h *engine.Health) { h.InError, h.Last.Message = 4, "quota" }),
			accepted: finding{true, setpoint.ReasonAccepted, understood}, ready: finding{true, setpoint.ReasonReady, answers}},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(c.refusal, c.notes, c.health)
			if got != c.accepted {
				t.Errorf("accepted: got %+v, want %+v", got, c.accepted)
			}
			if got := ready(got, &c.state, c.health); got != c.ready {
				t.Errorf("ready: got %+v, want %+v", got, c.ready)
			}
		})
	}
}

func TestStatusOf(t *testing.T) {
	long := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	former := setpoint.ControllerStatus{
		ObservedGeneration: 1, Parents: 9,
		Conditions: []metav1.Condition{
			{Type: setpoint.ConditionAccepted, Status: metav1.ConditionTrue, Reason: setpoint.ReasonAccepted, Message: "old", LastTransitionTime: long, ObservedGeneration: 1},
			{Type: setpoint.ConditionReady, Status: metav1.ConditionFalse, Reason: setpoint.ReasonStarting, LastTransitionTime: long, ObservedGeneration: 1},
			{Type: "Theirs", Status: metav1.ConditionTrue, LastTransitionTime: long},
		},
		LastError: &setpoint.LastError{Message: "before"},
	}
	health := engine.Health{Synced: true, Parents: 3, Children: 1 << 40, InError: 1}
	fine, works := finding{true, setpoint.ReasonAccepted, "new"}, finding{true, setpoint.ReasonReady, "at work"}
	status := statusOf(former, 2, fine, works, health)

	if diff := cmp.Diff([]any{int64(2), int32(3), int32(1<<31 - 1), int32(1), "before"},
		[]any{status.ObservedGeneration, status.Parents, status.Children, status.ParentsInError, status.LastError.Message}); diff != "" {
		t.Error(diff)
	}
	conditions := map[string]metav1.Condition{}
	for _, condition := range status.Conditions {
		conditions[condition.Type] = condition
	}
	if c := conditions[setpoint.ConditionAccepted]; !c.LastTransitionTime.Equal(&long) || c.Message != "new" || c.ObservedGeneration != 2 {
		t.Errorf("still accepted: %+v", c)
	}
	if c := conditions[setpoint.ConditionReady]; c.LastTransitionTime.Equal(&long) || c.Status != metav1.ConditionTrue || c.ObservedGeneration != 2 {
		t.Errorf("ready now: %+v", c)
	}
	if c := conditions["Theirs"]; !c.LastTransitionTime.Equal(&long) {
		t.Errorf("somebody else's: %+v", c)
	}
	if former.Conditions[0].Message != "old" {
		t.Error("the former status was changed")
	}
	if again := statusOf(status, 2, fine, works, health); !cmp.Equal(again, status) {
		t.Errorf("said again, it is another status: %s", cmp.Diff(status, again))
	}
}

func TestStatusTellsTheLastError(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 999, time.UTC)
	health := engine.Health{Synced: true, Last: engine.LastError{Message: "no", Object: "town/books", Time: at}}
	got := statusOf(setpoint.ControllerStatus{LastError: &setpoint.LastError{Message: "before"}}, 1, finding{ok: true}, finding{ok: true}, health).LastError
	want := &setpoint.LastError{Message: "no", Object: "town/books", Time: metav1.NewTime(at.Truncate(time.Second))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAFormerStatusThatCannotBeReadIsReplaced(t *testing.T) {
	for status, want := range map[string]int32{`{"parents":3}`: 3, `{"parents":"three"}`: 0, `[]`: 0, `null`: 0} {
		o, err := object.Parse([]byte(`{"metadata":{"name":"a"},"status":` + status + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := formerStatus(o).Parents; got != want {
			t.Errorf("%s has %d parents, want %d", status, got, want)
		}
	}
}

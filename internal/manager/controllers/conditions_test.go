package controllers

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/declared"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestConditions(t *testing.T) {
	works := controller.Health{Synced: true, Parents: 4}
	with := func(change func(*controller.Health)) controller.Health {
		h := works
		change(&h)
		return h
	}
	const understood, responses = "the spec is valid and its kinds are served", "caches are synced and no call fails"
	const seeAccepted = "see the condition Accepted"
	const partly = "caches are synced; calls fail for some objects: sync hook: refused"
	fine, declared := conditionState{true, setpoint.ReasonAccepted, understood}, controllerState{object: controllerObject(t, `{"name":"a"}`)}
	failing := func(of, some int) controller.Health {
		return with(func(h *controller.Health) {
			h.Parents, h.Failing, h.HookFailing, h.HookMessage = of, some, some, "sync hook: refused"
		})
	}
	runs := declared
	runs.running = &running.Controller{Compiled: &compile.Compiled{Programs: []composite.Program{{Name: "spcc/a"}}}}
	forbiddenFor := func(of, some int) controller.Health {
		return with(func(h *controller.Health) {
			h.Parents, h.Failing, h.Forbidden, h.ForbiddenMessage, h.ForbiddenNamespaces = of, some, some, "create ConfigMap a/b: forbidden", []string{"a", "c"}
		})
	}
	for name, c := range map[string]struct {
		refusal         error
		notes           []string
		state           controllerState
		health          controller.Health
		accepted, ready conditionState
	}{
		"healthy": {health: works,
			accepted: conditionState{true, setpoint.ReasonAccepted, understood}, ready: conditionState{true, setpoint.ReasonReady, responses}},
		"notes": {health: works, notes: []string{"one", "two"},
			accepted: conditionState{true, setpoint.ReasonAccepted, understood + "; note: one; two"}, ready: conditionState{true, setpoint.ReasonReady, responses}},
		"refused": {refusal: fmt.Errorf("compile: %w", &compile.Refusal{Reason: setpoint.ReasonInvalidSpec, Err: errors.New("spec.x: no such thing")}),
			accepted: conditionState{false, setpoint.ReasonInvalidSpec, "spec.x: no such thing"}, ready: conditionState{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"suspended": {state: controllerState{suspended: true},
			accepted: conditionState{true, setpoint.ReasonAccepted, understood},
			ready:    conditionState{false, setpoint.ReasonSuspended, "suspended: objects stay as they are, and no hook is called"}},
		"refused and suspended": {state: controllerState{suspended: true}, refusal: &compile.Refusal{Reason: setpoint.ReasonInvalidSpec, Err: errors.New("no")},
			accepted: conditionState{false, setpoint.ReasonInvalidSpec, "no"}, ready: conditionState{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"releasing": {state: controllerState{releasing: "removing"},
			accepted: conditionState{true, setpoint.ReasonAccepted, understood}, ready: conditionState{false, setpoint.ReasonReleasing, "removing"}},
		"refused while the previous one runs": {refusal: &compile.Refusal{Reason: setpoint.ReasonInvalidSpec, Err: errors.New("no")}, health: works,
			accepted: conditionState{false, setpoint.ReasonInvalidSpec, "no"}, ready: conditionState{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"starting": {
			accepted: conditionState{true, setpoint.ReasonAccepted, understood}, ready: conditionState{false, setpoint.ReasonStarting, "caches are syncing"}},
		"forbidden": {health: with(func(h *controller.Health) {
			forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(`User "x" cannot list resource "pods"`))
			h.Synced, h.WatchErrors = false, map[string]error{"pods.v1": forbidden, "z": errors.New("refused")}
		}),
			accepted: conditionState{false, setpoint.ReasonForbidden, `cannot list and watch pods.v1: pods is forbidden: User "x" cannot list resource "pods"; grant it to Setpoint`},
			ready:    conditionState{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"no longer served": {health: with(func(h *controller.Health) {
			h.WatchErrors = map[string]error{"pods.v1": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "")}
		}),
			accepted: conditionState{false, setpoint.ReasonResourceNotFound, "pods.v1 is no longer served"}, ready: conditionState{false, setpoint.ReasonNotAccepted, seeAccepted}},
		"API server unreachable": {health: with(func(h *controller.Health) {
			h.WatchErrors = map[string]error{"pods.v1": errors.New("connection refused"), "configmaps.v1": errors.New("timed out")}
		}),
			accepted: conditionState{true, setpoint.ReasonAccepted, understood}, ready: conditionState{false, setpoint.ReasonWatchFailing, "watch configmaps.v1: timed out"}},
		"hook fails for all":          {state: declared, health: failing(4, 4), accepted: fine, ready: conditionState{false, setpoint.ReasonHookFailing, "sync hook: refused"}},
		"hook fails for all but one":  {state: declared, health: failing(4, 3), accepted: fine, ready: conditionState{true, setpoint.ReasonReady, partly}},
		"hook fails for one":          {state: declared, health: failing(4, 1), accepted: fine, ready: conditionState{true, setpoint.ReasonReady, partly}},
		"hook fails for the only one": {state: declared, health: failing(1, 1), accepted: fine, ready: conditionState{false, setpoint.ReasonHookFailing, "sync hook: refused"}},
		"hook fails for nine in ten":  {state: declared, health: failing(100, 90), accepted: fine, ready: conditionState{true, setpoint.ReasonReady, partly}},
		"hook fails for nearly all":   {state: declared, health: failing(100, 91), accepted: fine, ready: conditionState{false, setpoint.ReasonHookFailing, "sync hook: refused"}},
		"hook process is down": {state: declared, health: with(func(h *controller.Health) { h.HookDown = "process hook: ended with exit code 1" }),
			accepted: fine, ready: conditionState{false, setpoint.ReasonHookUnreachable, "process hook: ended with exit code 1"}},
		"down, with failing calls": {state: declared, health: with(func(h *controller.Health) { h.HookDown, h.HookFailing, h.HookUnreachable = "dead", 4, "refused" }),
			accepted: fine, ready: conditionState{false, setpoint.ReasonHookUnreachable, "dead"}},
		"down and suspended": {state: controllerState{suspended: true}, health: with(func(h *controller.Health) { h.HookDown = "dead" }), accepted: fine,
			ready: conditionState{false, setpoint.ReasonSuspended, "suspended: objects stay as they are, and no hook is called"}},
		"the latest call did not connect": {state: declared, health: with(func(h *controller.Health) {
			h.Parents, h.HookFailing, h.HookMessage, h.HookUnreachable = 100, 1, "sync hook: refused", "POST http://hook/sync: connection refused"
		}),
			accepted: fine, ready: conditionState{false, setpoint.ReasonHookFailing, "the latest call did not connect: POST http://hook/sync: connection refused"}},
		"no connection, for a deleted parent": {state: declared, health: with(func(h *controller.Health) { h.HookUnreachable = "refused" }),
			accepted: fine, ready: conditionState{true, setpoint.ReasonReady, responses}},
		"forbidden for all": {state: runs, health: forbiddenFor(4, 4), accepted: fine,
			ready: conditionState{false, setpoint.ReasonForbidden, "the API server forbids what the controller does for all objects: create ConfigMap a/b: forbidden; `setpoint rbac spcc/a` prints the roles that it needs"}},
		"forbidden for all, in a Go program": {health: forbiddenFor(1, 1), accepted: fine,
			ready: conditionState{false, setpoint.ReasonForbidden, "the API server forbids what the controller does for all objects: create ConfigMap a/b: forbidden; `PROGRAM rbac` prints the roles that it needs"}},
		"forbidden for some": {state: runs, health: forbiddenFor(4, 2), accepted: fine, ready: conditionState{true, setpoint.ReasonReady,
			"caches are synced; the API server forbids what the controller does for some objects in a, c: create ConfigMap a/b: forbidden; `setpoint rbac spcc/a` prints the roles that it needs"}},
		"handlers fail for all": {health: failing(1, 1), accepted: fine, ready: conditionState{false, "HandlerFailing", "sync hook: refused"}},
		"handlers fail for one": {health: failing(2, 1), accepted: fine, ready: conditionState{true, setpoint.ReasonReady, partly}},
		"no valid parent": {health: with(func(h *controller.Health) { h.Failing, h.Invalid, h.InvalidMessage = 4, 4, "spec.selector: required" }),
			accepted: fine, ready: conditionState{false, "InvalidParent", "no object is a valid parent: spec.selector: required"}},
		"some invalid parents": {health: with(func(h *controller.Health) { h.Failing, h.Invalid, h.InvalidMessage = 2, 2, "spec.selector: required" }),
			accepted: fine, ready: conditionState{true, setpoint.ReasonReady, "caches are synced and no call fails, but some objects fail: see status.lastError"}},
		"writes fail": {health: with(func(h *controller.Health) { h.Failing, h.LastError.Message = 4, "quota" }),
			accepted: conditionState{true, setpoint.ReasonAccepted, understood}, ready: conditionState{true, setpoint.ReasonReady, "caches are synced and no call fails, but some objects fail: see status.lastError"}},
		"related objects are missing for all": {state: runs, health: missingRelated(3), accepted: fine, ready: conditionState{false, "RelatedMissing", "related objects: gadgets"}},
		"related objects are missing for one": {state: runs, health: missingRelated(1), accepted: fine, ready: conditionState{true, setpoint.ReasonReady,
			"caches are synced; some objects wait: related objects: gadgets"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := acceptedCondition(c.refusal, c.notes, c.health)
			if got != c.accepted {
				t.Errorf("accepted: got %+v, want %+v", got, c.accepted)
			}
			if got := c.state.ready(got, c.health); got != c.ready {
				t.Errorf("ready: got %+v, want %+v", got, c.ready)
			}
		})
	}
}

func missingRelated(of int) controller.Health {
	return controller.Health{Synced: true, Parents: 3, Failing: of, RelatedMissing: of, RelatedMessage: "related objects: gadgets"}
}

func TestInNamespaces(t *testing.T) {
	many := strings.Split("a b c d e f g h i j k l", " ")
	for want, names := range map[string][]string{"": nil, " in a": many[:1], " in a, b, c, d, e, f, g, h, i, j": many[:10], " in a, b, c, d, e, f, g, h, i, j and 2 more namespaces": many} {
		if got := inNamespaces(names); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNewStatus(t *testing.T) {
	long := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	previous := setpoint.ControllerStatus{
		ObservedGeneration: 1, Parents: 9,
		Conditions: []metav1.Condition{
			{Type: setpoint.ConditionAccepted, Status: metav1.ConditionTrue, Reason: setpoint.ReasonAccepted, Message: "old", LastTransitionTime: long, ObservedGeneration: 1},
			{Type: setpoint.ConditionReady, Status: metav1.ConditionFalse, Reason: setpoint.ReasonStarting, LastTransitionTime: long, ObservedGeneration: 1},
			{Type: "Theirs", Status: metav1.ConditionTrue, LastTransitionTime: long},
		},
		LastError: &setpoint.LastError{Message: "before"},
	}
	health := controller.Health{Synced: true, Parents: 3, Children: 1 << 40, Failing: 1}
	fine, works := conditionState{true, setpoint.ReasonAccepted, "new"}, conditionState{true, setpoint.ReasonReady, "at work"}
	status := newStatus(previous, 2, fine, works, health)

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
		t.Errorf("condition of another writer: %+v", c)
	}
	if previous.Conditions[0].Message != "old" {
		t.Error("the previous status was changed")
	}
	if again := newStatus(status, 2, fine, works, health); !cmp.Equal(again, status) {
		t.Errorf("the same status differs: %s", cmp.Diff(status, again))
	}
}

func TestStatusHasLastError(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 999, time.UTC)
	health := controller.Health{Synced: true, LastError: controller.LastError{Message: "no", Object: "town/books", Time: at}}
	got := newStatus(setpoint.ControllerStatus{LastError: &setpoint.LastError{Message: "before"}}, 1, conditionState{ok: true}, conditionState{ok: true}, health).LastError
	want := &setpoint.LastError{Message: "no", Object: "town/books", Time: metav1.NewTime(at.Truncate(time.Second))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInvalidStoredStatusIsReplaced(t *testing.T) {
	for status, want := range map[string]int32{`{"parents":3}`: 3, `{"parents":"three"}`: 0, `[]`: 0, `null`: 0} {
		o := must.Get(object.Parse([]byte(`{"metadata":{"name":"a"},"status":` + status + `}`))).In(t)
		if got := compile.StoredStatus(o).Parents; got != want {
			t.Errorf("%s has %d parents, want %d", status, got, want)
		}
	}
}

// Fault G7: a controller is not ready while the process of its hook is down, for all kinds
// of controllers and forms of the address.
func TestHookDown(t *testing.T) {
	endpoints := calls.NewEndpoints()
	shared := &running.Dependencies{Endpoints: endpoints, InFlight: calls.NewInFlight(), Webhooks: serving.NewWebhooks(serving.WebhookOptions{})}
	controllers := map[string]*compile.Compiled{
		"sync":    {Programs: []composite.Program{{Name: "sync"}}, HookAddresses: []string{"hook.web:80"}},
		"handler": {Handlers: []handler.Program{{Name: "handler"}}, HookAddresses: []string{"elsewhere:443", "hook.web.svc:8080"}},
		"review":  {Admission: &admission.Program{Name: "review"}, HookAddresses: []string{"hook.web.svc.cluster.local.:443"}},
		"other":   {Programs: []composite.Program{{Name: "other"}}, HookAddresses: []string{"hook.webs:80"}},
	}
	downAt := func(want map[string]bool) {
		t.Helper()
		for name, compiled := range controllers {
			r := &running.Controller{Compiled: compiled, Dependencies: shared}
			got := new(controllerState).ready(conditionState{ok: true}, r.Health())
			if down := got.reason == setpoint.ReasonHookUnreachable; down != want[name] || down && got.message != "process worker: ended with exit code 1" {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	downAt(nil)
	for _, address := range []string{"hook.web", "hook.web.svc", "hook.web.svc.cluster.local"} {
		endpoints.SetDown(address, errors.New("process worker:\n\tended with exit code 1"))
	}
	downAt(map[string]bool{"sync": true, "handler": true, "review": true})
	endpoints.SetUp("hook.web")
	downAt(map[string]bool{"handler": true, "review": true})
	endpoints.SetUp("hook.web.svc")
	endpoints.SetUp("hook.web.svc.cluster.local")
	downAt(nil)
	endpoints.SetDown("hook.web.svc:9090", errors.New("another port"))
	downAt(nil)
}

// Fault G11: held deletions are in the status, with a command that confirms them. Shortly
// after a restart the previous status stays.
func TestHeldDeletionsInStatus(t *testing.T) {
	var status setpoint.ControllerStatus
	setDeletionsHeld(&status, "compositecontroller.setpoint.dev/tenants", 3, controller.Health{})
	if len(status.Conditions) != 0 {
		t.Fatalf("conditions without held deletions: %+v", status.Conditions)
	}
	health := controller.Health{Held: controller.HeldDeletions{Count: 12, Parents: 6, Value: "0123456789abcdef"}}
	setDeletionsHeld(&status, "compositecontroller.setpoint.dev/tenants", 3, health)
	for _, kind := range []string{setpoint.ConditionDeletionsHeld, setpoint.ConditionStalled} {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil || c.Status != "True" || c.Reason != setpoint.ReasonTooManyDeletions || c.ObservedGeneration != 3 {
			t.Fatalf("%s is %+v", kind, c)
		}
		for _, want := range []string{"12 deletions of children of 6 parents", "setpoint allow-deletions compositecontroller.setpoint.dev/tenants", "0123456789abcdef"} {
			if !strings.Contains(c.Message, want) {
				t.Errorf("%s lacks %q: %s", kind, want, c.Message)
			}
		}
	}
	if held := status.HeldDeletions; held == nil || *held != (setpoint.HeldDeletions{Count: 12, Parents: 6, Value: "0123456789abcdef"}) {
		t.Errorf("held are %+v", held)
	}
	previous := *status.DeepCopy()
	setDeletionsHeld(&status, "tenants", 3, controller.Health{HeldUnknown: true})
	if !HasHeldDeletions(status.Conditions) || status.HeldDeletions == nil {
		t.Error("a restart drops held deletions")
	}
	setDeletionsHeld(&status, "tenants", 3, controller.Health{})
	if HasHeldDeletions(status.Conditions) || meta.IsStatusConditionTrue(status.Conditions, setpoint.ConditionStalled) {
		t.Errorf("still held: %+v", status.Conditions)
	}
	change := must.Get(declared.StatusPatch(&object.Object{}, previous, status)).In(t)
	patch, err := json.Marshal(change)
	if err != nil || strings.Count(string(patch), "heldDeletions") != 1 || !strings.Contains(string(patch), `"heldDeletions":null`) {
		t.Errorf("the patch keeps held deletions: %s, %v", patch, err)
	}
}

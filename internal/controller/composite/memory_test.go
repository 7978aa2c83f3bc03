package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
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
	name, other := object.Ref{Name: "a"}, object.Ref{Name: "b"}
	one, two := queue.Key{Name: "one"}, queue.Key{Name: "two"}
	c.nameWaiters.add(name, one)
	c.nameWaiters.add(name, two)
	c.nameWaiters.add(other, one)
	c.nameWaiters.drop(one)
	if left := c.nameWaiters.Get(other); left != nil {
		t.Errorf("still %v", left)
	}
	if got := c.nameWaiters.Take(name); len(got) != 1 || !got[two] || len(c.nameWaiters.Take(name)) != 0 {
		t.Errorf("took %v", got)
	}
}

// The error of a refused write may quote the object. Its kind is known even without records.
func TestObjectStateHasLocationsOfItsError(t *testing.T) {
	for _, unrecorded := range []bool{false, true} {
		s := newCluster(t, newShop)
		s.refuse = func(method, _ string) int { return map[string]int{http.MethodPost: http.StatusForbidden}[method] }
		c := shopsOf(t, s, Program{Sync: &statusHook{respond: openShop}}, func(d *controller.Dependencies) { d.Unrecorded = unrecorded })
		c.run(queue.Start)
		state, _ := c.ObjectState(queue.Key{Namespace: "town", Name: "a"})
		want := record.Location{Kind: object.KindOf(signs), Namespace: "town"}
		if !strings.Contains(state.Error, "open sesame") || len(state.Locations) != 1 || state.Locations[0] != want {
			t.Errorf("unrecorded %t: %q among %v", unrecorded, state.Error, state.Locations)
		}
	}
}

// A standby controller knows the objects, but not their state.
func TestObjectStateWithoutLeadership(t *testing.T) {
	c := shopsOf(t, newCluster(t, newShop), Program{})
	if all := c.ObjectStates(); len(all) != 1 || !all[0].Standby || all[0].Queued {
		t.Errorf("managed: %+v", all)
	}
}

// Objects that name a parent as their owner, and that the controller does not manage, do not raise the limit of
// the deletion guard.
func TestForgedChildrenDoNotCount(t *testing.T) {
	c := shopsOf(t, newCluster(t, newShop), Program{Sync: hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
		return &hook.Response{}, nil
	})})
	parent := c.Get(queue.Key{Namespace: "town", Name: "a"})
	for i, metadata := range []string{
		`"namespace": "town", "labels": {"controller-uid": %q}`,
		`"namespace": "elsewhere", "labels": {"controller-uid": %q}`,
		`"namespace": "town", "labels": {"controller-uid": "not %s"}`,
		`"namespace": "town", "labels": {"controller-uid": %q}, "finalizers": ["x.org/y"], "deletionTimestamp": "2026-01-01T00:00:00Z"`,
	} {
		c.observe(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c%d", "uid": "u%[1]d", "resourceVersion": "%[1]d1",
			"ownerReferences": [{"apiVersion": "example.org/v1", "kind": "Shop", "name": "a", "uid": %[2]q, "controller": true}], %[3]s}}`,
			i+1, parent.UID(), fmt.Sprintf(metadata, parent.UID())))
	}
	if got := c.CountChildren(false); got != 1 {
		t.Errorf("%d children count, want 1", got)
	}
}

// Fault U7: a deletion of a managed parent is recorded when the watch delivers it, unless the
// object may only have left the selector of the watch.
func TestDeletionsAreRecorded(t *testing.T) {
	some := must.Get(labels.Parse("a=b")).In(t)
	for _, c := range []struct {
		name    string
		program Program
		text    string
		want    int
	}{
		{"managed", Program{}, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"namespace":"town","name":"a","uid":"1"}}`, 1},
		{"narrowed", Program{Selections: []Selection{{Labels: some}}}, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"namespace":"town","name":"a","uid":"1","labels":{"a":"b"}}}`, 0},
		{"by fields", Program{Fields: "metadata.name=a"}, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"namespace":"town","name":"a","uid":"1"}}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shopsOf(t, newCluster(t), c.program)
			gone := must.Get(object.Parse([]byte(c.text))).In(t)
			s.parentChanged(cache.Event{Old: gone})
			got := s.deletions
			if len(got) != c.want {
				t.Fatalf("recorded %+v, want %d", got, c.want)
			}
			if c.want > 0 && (got[0].Outcome != record.Deleted || got[0].Object.UID != "1" || got[0].Object.Name != gone.Name() || got[0].Object.Namespace != gone.Namespace() || got[0].Began.IsZero() || got[0].IsNoop()) {
				t.Errorf("recorded %+v", got[0])
			}
		})
	}
}

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

// A taken name is a fault of its own kind, whatever wraps its error: its advice is another name, not a retry.
func TestTakenNameIsAFault(t *testing.T) {
	err := failure.WithReason(controller.ReasonWriteFailed, nameTakenError("create Namespace a: it already exists and has no owner"))
	if fault := record.FaultOf(err); fault == nil || fault.Kind != failure.NameTaken {
		t.Errorf("classified as %+v", fault)
	}
}

// After an update that was not enough, the next writes of the child are applies at once, those of others are not.
func TestCoOwnedChildrenAreAppliedAtOnce(t *testing.T) {
	const text = `{"kind":"ConfigMap","metadata":{"name":"c","uid":"c-1","resourceVersion":"1"}}`
	mine, other := parse(t, text), parse(t, `{"kind":"ConfigMap","metadata":{"name":"d","uid":"d-1","resourceVersion":"1"}}`)
	m := &memory{}
	updates := func() (all []bool) {
		stage := []plan.Action{{Verb: plan.Apply, Before: mine, Update: mine}, {Verb: plan.Apply, Before: other, Update: other}, {Verb: plan.Create}}
		m.skipUpdates(plan.Plan{Stages: [][]plan.Action{stage}})
		return []bool{stage[0].Update != nil, stage[1].Update != nil}
	}
	m.noteOwners(apply.Result{Updated: other})
	if got := updates(); !got[0] || !got[1] {
		t.Errorf("updates before: %v", got)
	}
	m.noteOwners(apply.Result{Updated: mine, CoOwned: true})
	if got := updates(); got[0] || !got[1] {
		t.Errorf("updates after: %v", got)
	}
}

// A run that has used its calls because a recreated child is slow goes on in the next one. One that recreates a child
// again and again has a conflict.
func TestARecreateThatWaitsIsNoConflict(t *testing.T) {
	pod := object.Ref{Kind: object.NewKind("v1", "Pod"), Namespace: "town", Name: "a"}
	deleted := apply.Result{Action: plan.Action{Verb: plan.Delete, DryRunVerb: plan.Update, Ref: pod}}
	removed := apply.Result{Action: plan.Action{Verb: plan.Delete, Ref: pod}}
	created := apply.Result{Action: plan.Action{Verb: plan.Create, Ref: pod}}
	remembered := &memory{}
	for _, c := range []struct {
		name      string
		results   []apply.Result
		conflicts bool
	}{
		{"nothing was recreated", []apply.Result{removed, created}, true},
		{"deleted", []apply.Result{deleted}, false},
		{"created in the next run", []apply.Result{created}, false},
		{"the run after", nil, true},
		{"recreated", []apply.Result{deleted, created}, false},
		{"recreated twice", []apply.Result{deleted, created, deleted, created}, true},
	} {
		r := &run{writes: &writes{Controller: &Controller{Base: &controller.Base{Dependencies: controller.Dependencies{Now: time.Now}}}, Run: &controller.Run{}, memory: remembered}}
		for _, result := range c.results {
			r.noteRecreation(result)
		}
		if err := r.notConvergedError(); errors.Is(err, errIncomplete) == c.conflicts {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Fault U6: the tree of a parent includes its revisions, which are deleted with it.
func TestChildrenIncludeRevisions(t *testing.T) {
	c := shopsOf(t, newCluster(t, newShop, `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a-1","uid":"r","labels":{"`+plan.ParentUIDLabel+`":"u-a"},`+
		`"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Shop","name":"a","uid":"u-a","controller":true}]},"revision":1}`),
		Program{Children: plan.Rules{{Resource: signs, Method: plan.RollingInPlace}}})
	for shop := range c.Managed() {
		family := c.Children(shop)
		if len(family) != 1 || family[0].Resource != plan.ControllerRevisions || family[0].Object.Name() != "a-1" {
			t.Errorf("the family is %+v", family)
		}
		return
	}
	t.Error("there is no shop")
}

// A field of the status that the schema does not have is reported once, and stored once the schema has it.
func TestPrunedStatusIsWrittenAgain(t *testing.T) {
	for name, c := range map[string]struct {
		mark  plan.Mark
		cause queue.CauseKind
		wait  bool
	}{
		"composite, a user asks": {plan.Mark{}, queue.ReconcileRequested, false},
		"composite, later":       {plan.Mark{}, queue.RequeueAfter, true},
		"decorator, a user asks": {plan.Mark{Key: "d", Value: "d"}, queue.ReconcileRequested, false},
		"decorator, later":       {plan.Mark{Key: "d", Value: "d"}, queue.RequeueAfter, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, newShop)
			s.prune = func(status map[string]any) { delete(status, "late") }
			b := &statusHook{respond: says(hook.Response{Status: json.RawMessage(`{"late":1,"ready":true}`)})}
			shops := shopsOf(t, s, Program{Sync: b, Mark: c.mark})
			shops.run(queue.Start)
			shops.run(queue.Resync)
			if events := strings.Count(strings.Join(shops.events, "\n"), controller.ReasonStatusPruned); events != 1 {
				t.Errorf("%d events: %q", events, shops.events)
			}
			s.prune = nil
			shops.run(queue.Resync)
			if status := s.stored("shops/a", "status"); strings.Contains(status, "late") {
				t.Errorf("%s, although no user asked", status)
			}
			if c.wait {
				shops.clockOffset += controller.PrunedRetry
			}
			shops.run(c.cause)
			if status := s.stored("shops/a", "status"); !strings.Contains(status, `"late":1`) {
				t.Errorf("left %s", status)
			}
			s.wrote()
			shops.clockOffset += controller.PrunedRetry
			shops.run(queue.Resync)
			s.expectWrites(t, "")
		})
	}
}

// What Setpoint itself adds to a status is nothing that an author could leave out: only what the response has is reported.
func TestPrunedStatusOfSetpoint(t *testing.T) {
	decorator := plan.Mark{Key: "d", Value: "d"}
	for name, c := range map[string]struct {
		mark          plan.Mark
		returns, want string
	}{
		"nothing of the hook":         {plan.Mark{}, `{"ready":true}`, ""},
		"a later field of the hook":   {plan.Mark{}, `{"ready":true,"zone":"a"}`, "status.zone was not stored"},
		"its own kind of condition":   {plan.Mark{}, `{"conditions":[{"type":"Open","status":"True"}]}`, "status.conditions was not stored"},
		"a condition like Setpoint's": {plan.Mark{}, `{"conditions":[{"type":"Synced","status":"True"}]}`, "status.conditions was not stored"},
		"what a decorator returns":    {decorator, `{"observedGeneration":1}`, "status.observedGeneration was not stored"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, newShop)
			s.prune = func(status map[string]any) {
				for _, field := range [...]string{"observedGeneration", "conditions", "zone"} {
					delete(status, field)
				}
			}
			b := &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{Status: json.RawMessage(c.returns)} }}
			shops := shopsOf(t, s, Program{Sync: b, Mark: c.mark, Conditions: c.mark == plan.Mark{}})
			shops.run(queue.Start)
			events := strings.Join(shops.events, "\n")
			if reported := strings.Contains(events, controller.ReasonStatusPruned); reported != (c.want != "") || !strings.Contains(events, c.want) {
				t.Errorf("%q, want %q", shops.events, c.want)
			}
		})
	}
}

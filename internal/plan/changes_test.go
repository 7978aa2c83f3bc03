package plan

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// child returns a random object. It may be owned by the parent, by another owner or by none, and
// may be deleting.
func (g generator) child(t *testing.T, stored bool) map[string]any {
	t.Helper()
	kinds := []object.Resource{{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}}
	for _, rule := range declared() {
		if rule.Resource.Namespaced {
			kinds = append(kinds, rule.Resource)
		}
	}
	if !stored {
		kinds = kinds[1:]
	}
	resource := kinds[g.IntN(len(kinds))]
	metadata := map[string]any{"name": g.pick("a", "b", "c"), "namespace": "town"}
	if g.IntN(2) == 0 {
		metadata["annotations"] = g.pick(map[string]any{"x": "1"}, map[string]any{lastApplied: `{"spec":{"a":1}}`}, map[string]any{lastApplied: `[`})
	}
	child := map[string]any{"apiVersion": resource.APIVersion(), "kind": resource.Kind, "metadata": metadata, "spec": g.object(3)}
	if stored {
		metadata["uid"] = strconv.Itoa(g.IntN(1 << 40))
		metadata["resourceVersion"] = "9"
	}
	if stored {
		metadata["ownerReferences"] = g.pick(owners("parent-uid"), owners("parent-uid"), owners("other"), []any{})
	} else if g.IntN(4) == 0 {
		metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "X", "name": "books", "uid": g.pick("parent-uid", "other", "another")}}
	}
	if g.IntN(8) == 0 {
		metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	return child
}

func owners(uid string) []any {
	return []any{map[string]any{"apiVersion": "v1", "kind": "X", "name": "books", "uid": uid, "controller": true}}
}

// children returns random observed children with unique names, and random desired ones.
func (g generator) children(t *testing.T, f *Planner) (observed []*object.Object, desired []Child) {
	t.Helper()
	taken := map[Key]bool{}
	for range g.IntN(8) {
		o := parse(t, jsonOf(t, g.child(t, true)))
		if !taken[KeyOf(o)] {
			observed = append(observed, o)
		}
		taken[KeyOf(o)] = true
	}
	clear(taken)
	for range g.IntN(8) {
		o := parse(t, jsonOf(t, g.child(t, false)))
		rule, _ := f.Rules.For(o.GroupKind())
		if !taken[KeyOf(o)] {
			desired = append(desired, Child{Rule: rule, Object: o})
		}
		taken[KeyOf(o)] = true
	}
	return observed, desired
}

// No plan updates or deletes an object that the parent does not control or that is being deleted.
// None deletes a desired child unless it recreates it. After a plan is applied, nothing is left to
// do. (Package apply tests server-side apply with the server's code.)
func TestChangesTouchOnlyOwnedChildren(t *testing.T) {
	seeded(t, 500, func(t *testing.T, g generator) {
		text := g.pick("", "serverSide: true").(string)
		f := plannerOf(t, []byte(text))
		observed, desired := g.children(t, f)
		p := must.Get(f.Changes(observed, desired, nil)).In(t)
		wanted := map[Key]Child{}
		for _, child := range desired {
			wanted[KeyOf(child.Object)] = child
		}
		for _, stage := range p.Stages {
			for _, action := range stage {
				checkAction(t, f, action, wanted)
			}
		}
		observed = slices.DeleteFunc(observed, func(o *object.Object) bool { return !f.Controls(o) })
		if text == "" {
			checkConverges(t, f, observed, desired, p)
		}
	})
}

func checkAction(t *testing.T, f *Planner, action Action, wanted map[Key]Child) {
	t.Helper()
	if action.Before != nil && (!f.Controls(action.Before) || action.Before.Deleting()) {
		t.Errorf("%s: %s is not to be touched", action, action.Before.JSON())
	}
	if action.After != nil && (!f.Controls(action.After) || action.After.Name() != action.Ref.Name) {
		t.Errorf("%s: sends %s", action, action.After.JSON())
	}
	switch action.Verb {
	case Create:
		if action.After.UID() != "" || action.After.Version() != 0 || action.After.Deleting() {
			t.Errorf("%s: sends system fields: %s", action, action.After.JSON())
		}
	case Apply:
		if action.After.UID() != action.Before.UID() || action.After.Version() != 0 {
			t.Errorf("%s: is not bound to the object that was read, or to its version", action)
		}
	case Update:
		if action.After.UID() != action.Before.UID() || action.After.Version() != action.Before.Version() {
			t.Errorf("%s: is not bound to the object that was read", action)
		}
	case Delete:
		if child, isWanted := wanted[KeyOf(action.Before)]; isWanted && child.Rule.Method != Recreate {
			t.Errorf("%s: is desired and to be left alone", action)
		}
	}
}

// Children that the caller knows to be up to date are neither compared nor written. That ends the
// writes to a server that does not store all of what it gets.
func TestUpToDate(t *testing.T) {
	f := plannerOf(t, nil)
	desired, _, err := f.Desired(responseOf(t, []byte(`[{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {}}]`)))
	must.Succeed(t, err)
	observed := observedOf(t, map[string][]byte{
		"observed.yaml": []byte(`[{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: town}}]`)})
	p, err := f.Changes(observed, desired, nil)
	if err != nil || len(p.Actions()) != 1 {
		t.Fatalf("got %v, %v; want one update", p, err)
	}
	update := p.Stages[0][0]
	p, err = f.Changes(observed, desired, func(o *object.Object, digest uint64) bool {
		return o == observed[0] && digest == update.Desired
	})
	if err != nil || !p.Empty() {
		t.Errorf("settled, and still to do: %v, %v", p, err)
	}
}

func TestDesiredTakesTheLastOfTwoFields(t *testing.T) {
	f := plannerOf(t, []byte("generated: true"))
	desired, _, err := f.Desired([]json.RawMessage{[]byte(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"metadata":{"name":"b"},"data":{"k":"1","k":"2"}}`)})
	must.Succeed(t, err)
	const want = `{"apiVersion":"v1","data":{"k":"2"},"kind":"ConfigMap","metadata":{"name":"b","namespace":"town","labels":{"controller-uid":"parent-uid"}}}`
	if got := string(desired[0].Object.JSON()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The path is what a user looks for in the hook.
func TestDesiredReportsTheFieldPath(t *testing.T) {
	f := plannerOf(t, nil)
	_, _, err := f.Desired(responseOf(t, []byte(`[{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: 1}}}]`)))
	var fault *ResponseError
	if !errors.As(err, &fault) || fault.Path != "children[0].metadata.labels.app" || fault.Problem != "must be a string, is a number" {
		t.Errorf("got %#v", err)
	}
}

// Deletions come first. A stage has the kinds of one tier, and no kind comes after one that needs
// it.
func TestStagesKeepTheOrderOfTiers(t *testing.T) {
	verbs := []Verb{Create, Update, Delete, Adopt, Release}
	seeded(t, 500, func(t *testing.T, g generator) {
		var actions []Action
		for i := range g.IntN(20) {
			rules := declared()
			actions = append(actions, Action{Verb: verbs[g.IntN(len(verbs))], Resource: rules[g.IntN(len(rules))].Resource, Desired: uint64(i)})
		}
		p := Plan{Stages: stages(slices.Clone(actions))}
		if len(p.Actions()) != len(actions) || p.Empty() != (len(actions) == 0) {
			t.Errorf("%d actions became %d", len(actions), len(p.Actions()))
		}
		var before []Action
		for _, stage := range p.Stages {
			for i, action := range stage {
				if stageOrder(action) != stageOrder(stage[0]) || i > 0 && action.Desired < stage[i-1].Desired {
					t.Errorf("%v stands wrong in its stage", action)
				}
			}
			if before != nil && stageOrder(before[0]) >= stageOrder(stage[0]) {
				t.Errorf("%v comes after %v", stage[0], before[0])
			}
			before = stage
		}
	})
}

// A child found to be up to date is returned, so that it is not compared again.
func TestChangesListEqualChildren(t *testing.T) {
	f := plannerOf(t, nil)
	rule, _ := f.Rules.For(object.GroupKind{Kind: "ConfigMap"})
	desired := Child{Rule: rule, Object: parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"town"},"data":{"k":"v"}}`)}
	desired.Rule.Method = InPlace
	first, err := f.Changes(nil, []Child{desired}, nil)
	if err != nil || len(first.Actions()) != 1 || len(first.Equal) != 0 {
		t.Fatalf("%v, %v", first, err)
	}
	stored := first.Stages[0][0].After
	again, err := f.Changes([]*object.Object{stored}, []Child{desired}, nil)
	if err != nil || !again.Empty() || len(again.Equal) != 1 || again.Equal[0].Observed != stored || again.Equal[0].Desired != desired.Object.Digest() {
		t.Fatalf("%v, %+v, %v", again, again.Equal, err)
	}
	known, err := f.Changes([]*object.Object{stored}, []Child{desired}, func(*object.Object, uint64) bool { return true })
	if err != nil || !known.Empty() || len(known.Equal) != 0 {
		t.Fatalf("%v, %+v, %v", known, known.Equal, err)
	}
}

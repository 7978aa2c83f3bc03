package ownertree

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func refOf(kind, name string) object.Ref {
	return object.Ref{Kind: object.Kind{Group: "example.org", Version: "v1", Kind: kind, Namespaced: true}, Namespace: "shop", Name: name}
}

func childOf(kind, name string) inspect.Child { return inspect.Child{Ref: refOf(kind, name)} }

// namesOf are those of nodes, in their order.
func namesOf(nodes []*Node) []string {
	return lists.Map(nodes, func(n *Node) string { return n.Name })
}

// What a replica does not know that stands by hides nothing that the leader knows.
func TestWorstKnownStateWins(t *testing.T) {
	failing := inspect.ObjectState{Controller: "webs", State: inspect.StateFailing, Error: "no"}
	well := inspect.ObjectState{Controller: "webs", State: inspect.StateSynced}
	unknown := inspect.ObjectState{Controller: "webs", State: inspect.StateUnknown}
	unsettled := inspect.ObjectState{Controller: "nets", State: inspect.StateConflicting, Conflict: "again and again"}
	for _, test := range []struct {
		states []inspect.ObjectState
		state  inspect.State
		error  string
	}{
		{nil, "", ""},
		{[]inspect.ObjectState{unknown}, inspect.StateUnknown, ""},
		{[]inspect.ObjectState{unknown, failing}, inspect.StateFailing, "no"},
		{[]inspect.ObjectState{unknown, well}, inspect.StateSynced, ""},
		{[]inspect.ObjectState{well, failing}, inspect.StateFailing, "no"},
		{[]inspect.ObjectState{well, unsettled}, inspect.StateConflicting, "again and again"},
		{[]inspect.ObjectState{unsettled, failing, unknown, well}, inspect.StateFailing, "no"},
	} {
		for range 2 {
			n := &Node{}
			(&treeBuild{Builder: &Builder{}}).addChildren(n, test.states)
			if n.State != test.state || n.Error != test.error {
				t.Errorf("of %v: %q, %q", test.states, n.State, n.Error)
			}
			slices.Reverse(test.states)
		}
	}
	n := &Node{}
	(&treeBuild{Builder: &Builder{}}).addChildren(n, []inspect.ObjectState{unknown, failing})
	if len(n.Controllers) != 1 {
		t.Errorf("managed by %v, want each once", n.Controllers)
	}
}

// fakeProcess is one that tells of controllers for some kinds.
type fakeProcess struct {
	inspect.Source
	name     string
	kinds    []object.Kind
	children map[string][]inspect.Child
	// hangs means that it does not respond to requests for objects.
	hangs   bool
	queries atomic.Int32
}

func (p *fakeProcess) Name() string { return p.name }

func (p *fakeProcess) States(ctx context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	p.queries.Add(1)
	if p.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []inspect.ObjectState{{Ref: ref, Controller: p.name, State: inspect.StateSynced, ChildStates: p.children[ref.Name]}}, nil
}

func processesOf(all ...*fakeProcess) *Processes {
	return NewProcesses(inspect.NewTimeouts(20*time.Millisecond), func() (results []inspect.Result[[]inspect.Controller]) {
		for _, p := range all {
			results = append(results, inspect.Result[[]inspect.Controller]{Source: p, Value: []inspect.Controller{{Name: p.name, Kinds: p.kinds}}})
		}
		return results
	})
}

// A process that hangs is waited for once, and the tree says so and has what others know.
func TestHangingProcessIsQueriedOnce(t *testing.T) {
	kinds := []object.Kind{refOf("Web", "").Kind}
	families := map[string][]inspect.Child{}
	var first []inspect.Child
	for i := range 50 {
		name := fmt.Sprint("w", i)
		first = append(first, childOf("Web", name))
		families[name] = []inspect.Child{childOf("Web", name+"-child")}
	}
	hung, well := &fakeProcess{name: "hung", kinds: kinds, hangs: true}, &fakeProcess{name: "well", kinds: kinds, children: families}
	other := &fakeProcess{name: "other", kinds: []object.Kind{refOf("Page", "").Kind}}
	g := &Builder{Processes: processesOf(hung, well, other), May: func(object.Kind, string) bool { return true }, Nodes: 1000, Queries: 1000}
	root := &Node{Child: childOf("Web", "root")}
	missing, err := g.Build(t.Context(), root, []inspect.ObjectState{{Controller: "well", State: inspect.StateSynced, ChildStates: first}})
	if err != nil || len(missing) != 1 || missing[0].Error() != "the process hung did not respond in time" {
		t.Errorf("says %v, %v", missing, err)
	}
	if hung, other, well := hung.queries.Load(), other.queries.Load(), well.queries.Load(); hung > userclient.MaxParallel || other != 0 || well != 100 {
		t.Errorf("asked %d times who hangs, %d who does not care, and %d who does", hung, other, well)
	}
	for _, n := range root.Children {
		if len(n.Children) != 1 {
			t.Errorf("%s has %d children", n.Name, len(n.Children))
		}
	}
}

func TestBuildTree(t *testing.T) {
	web := &fakeProcess{name: "web", kinds: []object.Kind{refOf("Web", "").Kind}, children: map[string][]inspect.Child{
		"b": {childOf("Web", "c"), childOf("Web", "a"), childOf("Page", "z")}, // Back to the root, too.
		"c": {childOf("Web", "d"), childOf("Vault", "v")},
	}}
	g := &Builder{
		Processes: processesOf(web), Nodes: 100, Queries: 100,
		May: func(kind object.Kind, _ string) bool { return kind.Kind != "Vault" },
	}
	root := &Node{Child: childOf("Web", "a")}
	missing, err := g.Build(t.Context(), root, []inspect.ObjectState{{Controller: "webs", State: inspect.StateFailing, ChildStates: []inspect.Child{childOf("Web", "b")}}})
	if err != nil || len(missing) != 0 || root.State != inspect.StateFailing {
		t.Errorf("%v, %v, %s", missing, err, root.State)
	}
	b := root.Children[0]
	if got := web.queries.Load(); got != 3 {
		t.Errorf("asked %d times, want for b, c and d only", got)
	}
	if got := namesOf(b.Children); !slices.Equal(got, []string{"z", "c"}) {
		t.Errorf("made of b: %v, want by kind, and none that is in the tree", got)
	}
	if c := b.Children[1]; !slices.Equal(namesOf(c.Children), []string{"d"}) || c.Hidden != 1 {
		t.Errorf("made of c: %v and %d hidden", namesOf(c.Children), c.Hidden)
	}
}

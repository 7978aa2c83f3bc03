package lineage

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

func refOf(kind, name string) inspect.Ref {
	return inspect.Ref{Kind: inspect.Kind{Group: "example.org", Version: "v1", Kind: kind, Namespaced: true}, Namespace: "shop", Name: name}
}

func childOf(kind, name string) inspect.Child { return inspect.Child{Ref: refOf(kind, name)} }

// namesOf are those of nodes, in their order.
func namesOf(nodes []*Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

// What a replica does not know that stands by hides nothing that the leader knows.
func TestTheWorstThatIsKnownIsTheState(t *testing.T) {
	failing := inspect.Care{Controller: "webs", State: inspect.Failing, Error: "no"}
	well := inspect.Care{Controller: "webs", State: inspect.Well}
	unknown := inspect.Care{Controller: "webs", State: inspect.NotKnown}
	unsettled := inspect.Care{Controller: "nets", State: inspect.Unsettled, Unrest: "again and again"}
	for _, test := range []struct {
		cares []inspect.Care
		state inspect.State
		error string
	}{
		{nil, "", ""},
		{[]inspect.Care{unknown}, inspect.NotKnown, ""},
		{[]inspect.Care{unknown, failing}, inspect.Failing, "no"},
		{[]inspect.Care{unknown, well}, inspect.Well, ""},
		{[]inspect.Care{well, failing}, inspect.Failing, "no"},
		{[]inspect.Care{well, unsettled}, inspect.Unsettled, "again and again"},
		{[]inspect.Care{unsettled, failing, unknown, well}, inspect.Failing, "no"},
	} {
		for range 2 {
			n := &Node{}
			(&growing{Grower: &Grower{}}).take(n, test.cares)
			if n.State != test.state || n.Error != test.error {
				t.Errorf("of %v: %q, %q", test.cares, n.State, n.Error)
			}
			slices.Reverse(test.cares)
		}
	}
	n := &Node{}
	(&growing{Grower: &Grower{}}).take(n, []inspect.Care{unknown, failing})
	if len(n.Controllers) != 1 {
		t.Errorf("in the care of %v, want each once", n.Controllers)
	}
}

// process is one that tells of controllers for some kinds.
type process struct {
	inspect.Source
	name  string
	kinds []inspect.Kind
	made  map[string][]inspect.Child
	// hangs says that it answers nothing about objects.
	hangs bool
	asked atomic.Int32
}

func (p *process) Name() string { return p.name }

func (p *process) About(ctx context.Context, ref inspect.Ref) ([]inspect.Care, error) {
	p.asked.Add(1)
	if p.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []inspect.Care{{Ref: ref, Controller: p.name, State: inspect.Well, Family: p.made[ref.Name]}}, nil
}

func panelOf(all ...*process) *Panel {
	return NewPanel(inspect.NewPatience(20*time.Millisecond), func() (met []inspect.Answer[[]inspect.Controller]) {
		for _, p := range all {
			met = append(met, inspect.Answer[[]inspect.Controller]{Source: p, Value: []inspect.Controller{{Name: p.name, Kinds: p.kinds}}})
		}
		return met
	})
}

// A process that hangs is waited for once, and the tree says so and has what others know.
func TestWhoHangsIsAskedNoMore(t *testing.T) {
	kinds := []inspect.Kind{refOf("Web", "").Kind}
	families := map[string][]inspect.Child{}
	var first []inspect.Child
	for i := range 50 {
		name := fmt.Sprint("w", i)
		first = append(first, childOf("Web", name))
		families[name] = []inspect.Child{childOf("Web", name+"-child")}
	}
	hung, well := &process{name: "hung", kinds: kinds, hangs: true}, &process{name: "well", kinds: kinds, made: families}
	other := &process{name: "other", kinds: []inspect.Kind{refOf("Page", "").Kind}}
	g := &Grower{Panel: panelOf(hung, well, other), May: func(inspect.Kind, string) bool { return true }, Nodes: 1000, Asks: 1000}
	root := &Node{Child: childOf("Web", "root")}
	missing, err := g.Grow(t.Context(), root, []inspect.Care{{Controller: "well", State: inspect.Well, Family: first}})
	if err != nil || len(missing) != 1 || missing[0].Error() != "the process hung does not answer in time" {
		t.Errorf("says %v, %v", missing, err)
	}
	if hung, other, well := hung.asked.Load(), other.asked.Load(), well.asked.Load(); hung > manyAsks || other != 0 || well != 100 {
		t.Errorf("asked %d times who hangs, %d who does not care, and %d who does", hung, other, well)
	}
	for _, n := range root.Children {
		if len(n.Children) != 1 {
			t.Errorf("%s has %d children", n.Name, len(n.Children))
		}
	}
}

func TestTreesGrow(t *testing.T) {
	web := &process{name: "web", kinds: []inspect.Kind{refOf("Web", "").Kind}, made: map[string][]inspect.Child{
		"b": {childOf("Web", "c"), childOf("Web", "a"), childOf("Page", "z")}, // Back to the root, too.
		"c": {childOf("Web", "d"), childOf("Vault", "v")},
	}}
	g := &Grower{
		Panel: panelOf(web), Nodes: 100, Asks: 100,
		May: func(kind inspect.Kind, _ string) bool { return kind.Kind != "Vault" },
	}
	root := &Node{Child: childOf("Web", "a")}
	missing, err := g.Grow(t.Context(), root, []inspect.Care{{Controller: "webs", State: inspect.Failing, Family: []inspect.Child{childOf("Web", "b")}}})
	if err != nil || len(missing) != 0 || root.State != inspect.Failing {
		t.Errorf("%v, %v, %s", missing, err, root.State)
	}
	b := root.Children[0]
	if got := web.asked.Load(); got != 3 {
		t.Errorf("asked %d times, want for b, c and d only", got)
	}
	if got := namesOf(b.Children); !slices.Equal(got, []string{"z", "c"}) {
		t.Errorf("made of b: %v, want by kind, and none that is in the tree", got)
	}
	if c := b.Children[1]; !slices.Equal(namesOf(c.Children), []string{"d"}) || c.Hidden != 1 {
		t.Errorf("made of c: %v and %d hidden", namesOf(c.Children), c.Hidden)
	}
}

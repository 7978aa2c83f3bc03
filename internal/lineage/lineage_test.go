package lineage

import (
	"context"
	"slices"
	"testing"

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

func TestTreesGrow(t *testing.T) {
	made := map[string][]inspect.Child{
		"b": {childOf("Web", "c"), childOf("Web", "a"), childOf("Page", "z")}, // Back to the root, too.
		"c": {childOf("Web", "d"), childOf("Vault", "v")},
	}
	g := &Grower{
		About: func(_ context.Context, ref inspect.Ref) ([]inspect.Care, error) {
			if ref.Kind.Kind != "Web" {
				t.Errorf("asked about %s", ref.Name)
			}
			return []inspect.Care{{Ref: ref, Controller: "webs", State: inspect.Well, Family: made[ref.Name]}}, nil
		},
		May:   func(kind inspect.Kind, _ string) bool { return kind.Kind != "Vault" },
		Cared: func(kind inspect.Kind) bool { return kind.Kind == "Web" },
		Nodes: 100, Asks: 100,
	}
	root := &Node{Child: childOf("Web", "a")}
	missing, err := g.Grow(t.Context(), root, []inspect.Care{{Controller: "webs", State: inspect.Failing, Family: []inspect.Child{childOf("Web", "b")}}})
	if err != nil || len(missing) != 0 || root.State != inspect.Failing {
		t.Errorf("%v, %v, %s", missing, err, root.State)
	}
	b := root.Children[0]
	if got := namesOf(b.Children); !slices.Equal(got, []string{"z", "c"}) {
		t.Errorf("made of b: %v, want by kind, and none that is in the tree", got)
	}
	if c := b.Children[1]; !slices.Equal(namesOf(c.Children), []string{"d"}) || c.Hidden != 1 {
		t.Errorf("made of c: %v and %d hidden", namesOf(c.Children), c.Hidden)
	}
}

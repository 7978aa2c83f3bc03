package ui

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/ui/cluster"
)

// tree is what was made of an object.
type tree struct {
	Nodes []node
	// Hidden is how many there are that the visitor may not see, and More how many
	// are left out for their number.
	Hidden, More int
	// Well is how many are as they should be, of Total.
	Well, Total int
}

// node is one of them, and what was made of it in turn.
type node struct {
	inspect.Child
	Nodes []node
}

// maxNodes is how many children a page shows, and maxLooks of how many of them it asks
// what was made of them.
const (
	maxNodes = 300
	maxLooks = 20
)

// isWorkload says that objects of a kind make objects of their own.
func isWorkload(k inspect.Kind) bool { return len(cluster.MadeOf(k)) > 0 }

// tree is made of what controllers say that they made, and of what workloads own.
func (v *visit) tree(s *subject, cares []inspect.Care) tree {
	t := growTree(cares, v.reads)
	looks := 0
	for i := range t.Nodes {
		if n := &t.Nodes[i]; isWorkload(n.Kind) && looks < maxLooks {
			looks++
			n.Nodes = v.below(n.Ref)
		}
	}
	if len(cares) == 0 && !s.Gone && isWorkload(s.Kind) {
		t.Nodes = v.below(s.Ref)
		t.count()
	}
	return t
}

// below are what a workload owns. What may not be listed is left out.
func (v *visit) below(ref inspect.Ref) []node {
	found, _ := v.api.Dependents(v.context(), ref, nil)
	return nodesOf(found)
}

func nodesOf(found []cluster.Dependent) []node {
	nodes := make([]node, 0, len(found))
	for _, d := range found {
		n := node{Child: inspect.Child{Ref: d.Ref, Health: "Unknown", Created: d.Created}}
		if o, err := object.Parse(d.Object); err == nil {
			n.Health, n.Message = inspect.HealthOf(o)
		} else if d.Deleting {
			n.Health = "Terminating"
		}
		n.Nodes = nodesOf(d.Dependents)
		nodes = append(nodes, n)
	}
	return nodes
}

// growTree takes the families of all who care for an object, each child once, those
// that are not well first.
func growTree(cares []inspect.Care, may func(kind inspect.Kind, namespace string) bool) tree {
	var t tree
	seen := map[inspect.Ref]bool{}
	for _, care := range cares {
		for _, child := range care.Family {
			id := inspect.Ref{Kind: inspect.Kind{Group: child.Group, Kind: child.Kind.Kind}, Namespace: child.Namespace, Name: child.Name}
			if seen[id] {
				continue
			}
			seen[id] = true
			if !may(child.Kind, child.Namespace) {
				t.Hidden++
				continue
			}
			t.Nodes = append(t.Nodes, node{Child: child})
		}
	}
	slices.SortStableFunc(t.Nodes, func(a, b node) int {
		return cmp.Or(cmp.Compare(urgency(a.Health), urgency(b.Health)), cmp.Compare(a.Kind.Kind, b.Kind.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	t.count()
	if len(t.Nodes) > maxNodes {
		t.Nodes, t.More = t.Nodes[:maxNodes], len(t.Nodes)-maxNodes
	}
	return t
}

func (t *tree) count() {
	t.Total, t.Well = len(t.Nodes), 0
	for i := range t.Nodes {
		if t.Nodes[i].Health == "Current" {
			t.Well++
		}
	}
}

// urgency is how soon a child is shown: those first that need somebody.
func urgency(health string) int {
	order := []string{"Failed", "InProgress", "Terminating"}
	if i := slices.Index(order, health); i >= 0 {
		return i
	}
	return len(order)
}

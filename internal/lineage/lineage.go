// Package lineage grows the tree of what was made of an object: by controllers of
// Setpoint, as their processes tell, and by those of Kubernetes, as the owners of
// objects do.
//
// Here live the tree and its bounds. What must not: how it is shown. It reads as the user
// for whom it is, and leaves out what that one may not read, with a count. Package ui
// calls, and package cli.
package lineage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Node is an object and what was made of it.
type Node struct {
	inspect.Child
	// State and Error are how it is doing in the care of controllers, Controllers which
	// those are.
	State       inspect.State `json:"state,omitempty"`
	Error       string        `json:"error,omitempty"`
	Controllers []string      `json:"controllers,omitempty"`
	Children    []*Node       `json:"children,omitempty"`
	// Hidden is how many children the reader may not see, More how many are left out for
	// their number; Children have none of them.
	Hidden int `json:"hidden,omitempty"`
	More   int `json:"more,omitempty"`
}

// Grower grows trees for one reader. It is for one goroutine.
type Grower struct {
	// API is the API server as the reader sees it.
	API *asuser.Client
	// Panel are the processes that are asked who cares for an object; none if nil.
	Panel *Panel
	// May says whether the reader may get objects of a kind in a namespace; it may be
	// asked of a kind whose plural is not known.
	May func(kind inspect.Kind, namespace string) bool
	// Order is that of children; by kind and name if nil.
	Order func(a, b *Node) int
	// Nodes is how many there may be in all, Asks about how many it is asked who cares
	// for them, and Reads how many are read whole to know their health.
	Nodes, Asks, Reads int
}

// maxDepth is how deep a tree may be, manyAsks about how many objects it is asked at the
// same time who cares for them.
const (
	maxDepth = 8
	manyAsks = 8
)

// id is an object by what any two references to it have in common.
type id struct{ group, kind, namespace, name string }

func idOf(r inspect.Ref) id { return id{r.Group, r.Kind.Kind, r.Namespace, r.Name} }

// growing is one tree.
type growing struct {
	*Grower
	family *asuser.Family
	// seen are those that are in the tree: owners could go round in circles.
	seen  map[id]bool
	nodes int
	// asked is about how many it was asked, passed about how many it was not.
	asked, passed int
	// unread are those whose health is not known, for their number.
	unread int
}

// Grow adds to the root what was made of it, in the care of those that are known to care
// for it. What is not in the tree although it may be there is said by missing.
func (g *Grower) Grow(ctx context.Context, root *Node, cares []inspect.Care) (missing []error, err error) {
	t := &growing{Grower: g, family: g.API.Family(g.Reads), seen: map[id]bool{idOf(root.Ref): true}}
	t.take(root, cares)
	level := []*Node{root}
	for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
		if depth > 0 {
			if err := t.ask(ctx, level); err != nil {
				return nil, err
			}
		}
		t.addMade(ctx, level)
		level = t.settle(level)
	}
	return t.missing(), ctx.Err()
}

// ask asks who cares for the nodes of a generation, and what they made: of several at
// the same time.
func (t *growing) ask(ctx context.Context, level []*Node) error {
	asked := t.askable(level)
	cares := make([][]inspect.Care, len(asked))
	var group errgroup.Group
	group.SetLimit(manyAsks)
	for i, n := range asked {
		group.Go(func() error {
			cares[i] = t.Panel.about(ctx, n.Ref)
			return nil
		})
	}
	_ = group.Wait() // None of them fails.
	for i, n := range asked {
		for j := range cares[i] {
			cares[i][j] = inspect.RedactCare(cares[i][j], t.May)
		}
		t.take(n, cares[i])
	}
	return ctx.Err()
}

// askable are those nodes that somebody may care for, as many as are still asked about.
func (t *growing) askable(level []*Node) (found []*Node) {
	for _, n := range level {
		switch {
		case t.Panel == nil || !t.Panel.cares(n.Kind):
		case t.asked == t.Asks:
			t.passed++
		default:
			t.asked++
			found = append(found, n)
		}
	}
	return found
}

// take adds what those made who care for a node.
func (t *growing) take(n *Node, cares []inspect.Care) {
	for i := range cares {
		c := &cares[i]
		if !slices.Contains(n.Controllers, c.Controller) { // Each replica names it.
			n.Controllers = append(n.Controllers, c.Controller)
		}
		if weight(c.State) > weight(n.State) {
			n.State, n.Error = c.State, cmp.Or(c.Error, c.Unrest)
		}
		for _, child := range c.Family {
			switch {
			case !t.first(child.Ref):
			case t.May(child.Kind, child.Namespace):
				n.Children = append(n.Children, &Node{Child: child})
			default:
				n.Hidden++
			}
		}
	}
}

// weight is how much a state says: one that is known more than none, which is what a
// replica has that stands by, and of those that are known the one that is worst most.
func weight(s inspect.State) int {
	switch at := slices.Index(inspect.States(), s); {
	case s == inspect.NotKnown:
		return 1
	case at < 0:
		return 0
	default:
		return 1 + len(inspect.States()) - at
	}
}

// first says that an object is not in the tree yet; now it is.
func (t *growing) first(ref inspect.Ref) bool {
	was := t.seen[idOf(ref)]
	t.seen[idOf(ref)] = true
	return !was
}

// addMade adds what the controllers of Kubernetes made of the nodes of a generation, and what
// those of Setpoint keep of them.
func (t *growing) addMade(ctx context.Context, level []*Node) {
	var all []*asuser.Dependent
	var owners []*Node
	for _, n := range level {
		if n.UID == "" {
			continue
		}
		made := t.family.Made(ctx, n.Ref, t.Panel.kept(n.Kind)...)
		for i := range made {
			if t.first(made[i].Ref) {
				all, owners = append(all, &made[i]), append(owners, n)
			}
		}
	}
	t.unread += t.family.Read(ctx, all)
	for i, d := range all {
		owners[i].Children = append(owners[i].Children, nodeOf(d))
	}
}

func nodeOf(d *asuser.Dependent) *Node {
	n := &Node{Child: inspect.Child{Ref: d.Ref, Health: "Unknown", Created: d.Created}}
	if o, err := object.Parse(d.Object); err == nil {
		n.Health, n.Message = inspect.HealthOf(o)
	} else if d.Deleting {
		n.Health = "Terminating"
	}
	return n
}

// settle puts the children of a generation in order, leaves out those that are too many,
// and returns the others: the next generation.
func (t *growing) settle(level []*Node) (next []*Node) {
	for _, n := range level {
		slices.SortStableFunc(n.Children, func(a, b *Node) int {
			by := 0
			if t.Order != nil {
				by = t.Order(a, b)
			}
			return cmp.Or(by, cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		if left := t.Nodes - t.nodes; len(n.Children) > left {
			n.Children, n.More = n.Children[:left], len(n.Children)-left
		}
		t.nodes += len(n.Children)
		next = append(next, n.Children...)
	}
	return next
}

// missing is what may be missing from the tree, and why.
func (t *growing) missing() (all []error) {
	for _, u := range t.family.Unlisted() {
		all = append(all, u)
	}
	if t.Panel != nil {
		all = append(all, t.Panel.silent()...)
	}
	if t.passed > 0 {
		all = append(all, fmt.Errorf("what was made of %d more objects is not looked at: there are too many", t.passed))
	}
	if t.unread > 0 {
		all = append(all, errors.New("the health of some is not looked at: there are too many"))
	}
	return all
}

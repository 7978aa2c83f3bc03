// Package ownertree grows the tree of what was made of an object: by controllers of
// Setpoint, as their processes tell, and by those of Kubernetes, as the owners of
// objects do.
//
// Here live the tree and its bounds. What must not: how it is shown. It reads as the user
// for whom it is, and leaves out what that one may not read, with a count. Package ui
// calls, and package cli.
package ownertree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Node is an object and what was made of it.
type Node struct {
	model.Child
	// State and Error are how it is doing in the care of controllers, Controllers which
	// those are.
	State       model.State `json:"state,omitempty"`
	Error       string      `json:"error,omitempty"`
	Controllers []string    `json:"controllers,omitempty"`
	Children    []*Node     `json:"children,omitempty"`
	// Hidden is how many children the reader may not see, More how many are left out for
	// their number; Children have none of them.
	Hidden int `json:"hidden,omitempty"`
	More   int `json:"more,omitempty"`
}

// Builder grows trees for one reader. It is for one goroutine.
type Builder struct {
	// API is the API server as the reader sees it.
	API *userclient.Client
	// Processes are the processes that are asked who cares for an object; none if nil.
	Processes *Processes
	// May says whether the reader may get objects of a kind in a namespace; it may be
	// asked of a kind whose plural is not known.
	May func(kind model.Kind, namespace string) bool
	// Order is that of children; by kind and name if nil.
	Order func(a, b *Node) int
	// Nodes is how many there may be in all, Asks about how many it is asked who cares
	// for them, and Reads how many are read whole to know their health.
	Nodes, Queries, Reads int
}

// maxDepth is how deep a tree may be, maxConcurrentQueries about how many objects it is asked at the
// same time who cares for them.
const (
	maxDepth             = 8
	maxConcurrentQueries = 8
)

// id is an object by what any two references to it have in common.
type id struct{ group, kind, namespace, name string }

func idOf(r model.Ref) id { return id{r.Group, r.Kind.Kind, r.Namespace, r.Name} }

// treeBuild is one tree.
type treeBuild struct {
	*Builder
	dependents *userclient.OwnerIndex
	// seen are those that are in the tree: owners could go round in circles.
	seen  map[id]bool
	nodes int
	// queried is about how many it was asked, passed about how many it was not.
	queried, skipped int
	// unread are those whose health is not known, for their number.
	unread int
}

// Build adds to the root what was made of it, in the care of those that are known to care
// for it. What is not in the tree although it may be there is said by missing.
func (g *Builder) Build(ctx context.Context, root *Node, states []model.ObjectState) (missing []error, err error) {
	t := &treeBuild{Builder: g, dependents: g.API.NewOwnerIndex(g.Reads), seen: map[id]bool{idOf(root.Ref): true}}
	t.addChildren(root, states)
	level := []*Node{root}
	for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
		if depth > 0 {
			if err := t.query(ctx, level); err != nil {
				return nil, err
			}
		}
		t.addDependents(ctx, level)
		level = t.limit(level)
	}
	return t.missing(), ctx.Err()
}

// query asks who cares for the nodes of a generation, and what they made: of several at
// the same time.
func (t *treeBuild) query(ctx context.Context, level []*Node) error {
	queried := t.toQuery(level)
	states := make([][]model.ObjectState, len(queried))
	var group errgroup.Group
	group.SetLimit(maxConcurrentQueries)
	for i, n := range queried {
		group.Go(func() error {
			states[i] = t.Processes.states(ctx, n.Ref)
			return nil
		})
	}
	_ = group.Wait() // None of them fails.
	for i, n := range queried {
		for j := range states[i] {
			states[i][j] = model.RedactState(states[i][j], t.May)
		}
		t.addChildren(n, states[i])
	}
	return ctx.Err()
}

// toQuery are those nodes that somebody may care for, as many as are still asked about.
func (t *treeBuild) toQuery(level []*Node) (found []*Node) {
	for _, n := range level {
		switch {
		case t.Processes == nil || !t.Processes.manages(n.Kind):
		case t.queried == t.Queries:
			t.skipped++
		default:
			t.queried++
			found = append(found, n)
		}
	}
	return found
}

// addChildren adds what those made who care for a node.
func (t *treeBuild) addChildren(n *Node, states []model.ObjectState) {
	for i := range states {
		c := &states[i]
		if !slices.Contains(n.Controllers, c.Controller) { // Each replica names it.
			n.Controllers = append(n.Controllers, c.Controller)
		}
		if severity(c.State) > severity(n.State) {
			n.State, n.Error = c.State, cmp.Or(c.Error, c.Conflict)
		}
		for _, child := range c.ChildStates {
			switch {
			case !t.markSeen(child.Ref):
			case t.May(child.Kind, child.Namespace):
				n.Children = append(n.Children, &Node{Child: child})
			default:
				n.Hidden++
			}
		}
	}
}

// severity is how much a state says: one that is known more than none, which is what a
// replica has that stands by, and of those that are known the one that is worst most.
func severity(s model.State) int {
	switch at := slices.Index(model.States(), s); {
	case s == model.StateUnknown:
		return 1
	case at < 0:
		return 0
	default:
		return 1 + len(model.States()) - at
	}
}

// markSeen says that an object is not in the tree yet; now it is.
func (t *treeBuild) markSeen(ref model.Ref) bool {
	was := t.seen[idOf(ref)]
	t.seen[idOf(ref)] = true
	return !was
}

// addDependents adds what the controllers of Kubernetes made of the nodes of a generation, and what
// those of Setpoint keep of them.
func (t *treeBuild) addDependents(ctx context.Context, level []*Node) {
	var all []*userclient.Dependent
	var owners []*Node
	for _, n := range level {
		if n.UID == "" {
			continue
		}
		dependents := t.dependents.Children(ctx, n.Ref, t.Processes.revisionKinds(n.Kind)...)
		for i := range dependents {
			if t.markSeen(dependents[i].Ref) {
				all, owners = append(all, &dependents[i]), append(owners, n)
			}
		}
	}
	t.unread += t.dependents.Read(ctx, all)
	for i, d := range all {
		owners[i].Children = append(owners[i].Children, nodeOf(d))
	}
}

func nodeOf(d *userclient.Dependent) *Node {
	n := &Node{Child: model.Child{Ref: d.Ref, Health: "Unknown", Created: d.Created}}
	if o, err := object.Parse(d.Object); err == nil {
		n.Health, n.Message = model.HealthOf(o)
	} else if d.Deleting {
		n.Health = "Terminating"
	}
	return n
}

// limit puts the children of a generation in order, leaves out those that are too many,
// and returns the others: the next generation.
func (t *treeBuild) limit(level []*Node) (next []*Node) {
	for _, n := range level {
		slices.SortStableFunc(n.Children, func(a, b *Node) int {
			by := 0
			if t.Order != nil {
				by = t.Order(a, b)
			}
			return cmp.Or(by, cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		if remaining := t.Nodes - t.nodes; len(n.Children) > remaining {
			n.Children, n.More = n.Children[:remaining], len(n.Children)-remaining
		}
		t.nodes += len(n.Children)
		next = append(next, n.Children...)
	}
	return next
}

// missing is what may be missing from the tree, and why.
func (t *treeBuild) missing() (all []error) {
	for _, u := range t.dependents.ListErrors() {
		all = append(all, u)
	}
	if t.Processes != nil {
		all = append(all, t.Processes.errors()...)
	}
	if t.skipped > 0 {
		all = append(all, fmt.Errorf("what was made of %d more objects is not looked at: there are too many", t.skipped))
	}
	if t.unread > 0 {
		all = append(all, errors.New("the health of some is not looked at: there are too many"))
	}
	return all
}

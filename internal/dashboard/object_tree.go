package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// tree is what was made of an object.
type tree struct {
	*ownertree.Node
	// Current is how many children are current, of Total, and Unknown of how many that is not
	// known.
	Current, Unknown, Total int
	// Warnings says what may be missing, and why.
	Warnings []string
}

// How much a page shows of a tree, and asks for it.
const (
	maxNodes = 500
	maxCalls = 100
	maxReads = 200
)

// tree is made of what controllers say that they made, and of what workloads own.
func (req *request) tree(s *pageObject, states []model.ObjectState) (tree, error) {
	states, err := req.addSuspendedChildren(s.Ref, states)
	t, failed := buildTree(req.context(), s.Ref, states, &ownertree.Builder{
		API: req.api, May: req.canRead, Processes: ownertree.NewProcesses(req.patience, req.listControllers),
	})
	if err != nil {
		t.Warnings = append(t.Warnings, incompleteMessage(err))
	}
	return t, failed
}

// addSuspendedChildren adds what controllers own that are suspended, and watch nothing: the API
// server is asked for it.
func (req *request) addSuspendedChildren(ref model.Ref, states []model.ObjectState) (all []model.ObjectState, err error) {
	if !slices.ContainsFunc(states, func(c model.ObjectState) bool { return c.Suspended }) {
		return states, nil
	}
	all = slices.Clone(states)
	controllers := indexControllers(req.managingProcesses(states))
	for i := range all {
		c, known := controllers[controllerKey{all[i].Process, all[i].Controller}]
		if !all[i].Suspended || !known || ref.UID == "" {
			continue
		}
		found, unlisted := req.api.Dependents(req.context(), ref, c.Children)
		err = cmp.Or(err, unlisted)
		for _, d := range found {
			all[i].ChildStates = append(all[i].ChildStates, model.Child{Ref: d.Ref, Health: "Unknown", Created: d.Created})
		}
	}
	return all, err
}

// listControllers are those of all processes.
func (req *request) listControllers() []model.Result[[]model.Controller] {
	return model.QueryAll(req.context(), req.patience, req.options.Sources(req.context()), func(ctx context.Context, s model.Source) ([]model.Controller, error) {
		return s.Controllers(ctx)
	})
}

// buildTree puts children first that are not well.
func buildTree(ctx context.Context, ref model.Ref, states []model.ObjectState, g *ownertree.Builder) (tree, error) {
	g.Nodes, g.Queries, g.Reads = maxNodes, maxCalls, maxReads
	g.Order = func(a, b *ownertree.Node) int { return cmp.Compare(severity(a.Health), severity(b.Health)) }
	t := tree{Node: &ownertree.Node{Child: model.Child{Ref: ref}}}
	missing, err := g.Build(ctx, t.Node, states)
	for _, why := range missing {
		t.Warnings = append(t.Warnings, incompleteMessage(why))
	}
	t.Total = len(t.Children) + t.More
	for _, child := range t.Children {
		switch child.Health {
		case "Current":
			t.Current++
		case "Unknown":
			t.Unknown++
		}
	}
	return t, err
}

// Summary says how many children are current. Of one whose health is not known, such as
// those of a suspended controller, it does not say that it is not.
func (t tree) Summary() string {
	if t.Unknown == 0 {
		return fmt.Sprintf("%d of %d current", t.Current, t.Total)
	}
	if t.Unknown == t.Total {
		return fmt.Sprintf("%d, health unknown", t.Total)
	}
	return fmt.Sprintf("%d of %d current, health of %d unknown", t.Current, t.Total, t.Unknown)
}

// incompleteMessage say why something is not in a tree.
func incompleteMessage(err error) string {
	if right, is := userclient.MissingPermission(err); is {
		return "Incomplete: you do not have permission to " + right.String() + "."
	}
	return "Incomplete: " + err.Error() + "."
}

// severity is how soon a child is shown: those first that need somebody.
func severity(health string) int {
	order := []string{"Failed", "InProgress", "Terminating"}
	if i := slices.Index(order, health); i >= 0 {
		return i
	}
	return len(order)
}

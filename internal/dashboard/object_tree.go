package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// tree is an object and the resources that it owns.
type tree struct {
	*ownertree.Node
	// Current, Unknown and Total count the direct children by health.
	Current, Unknown, Total int
	// Warnings say why the tree is incomplete.
	Warnings []string
}

// Limits of a tree.
const (
	maxNodes = 500
	maxCalls = 100
	maxReads = 200
)

// tree returns the children that controllers and workloads own.
func (req *request) tree(s *pageObject, states []inspect.ObjectState) (tree, error) {
	states, err := req.addSuspendedChildren(s.Ref, states)
	t, failed := buildTree(req.context(), s.Ref, states, &ownertree.Builder{
		API: req.api, May: req.canRead, Processes: ownertree.NewProcesses(req.timeouts, req.listControllers),
	})
	if err != nil {
		t.Warnings = append(t.Warnings, incompleteMessage(err))
	}
	return t, failed
}

// addSuspendedChildren lists the children of suspended controllers from the API server, since
// such controllers watch nothing.
func (req *request) addSuspendedChildren(ref object.Ref, states []inspect.ObjectState) (all []inspect.ObjectState, err error) {
	if !slices.ContainsFunc(states, func(c inspect.ObjectState) bool { return c.Suspended }) {
		return states, nil
	}
	all = slices.Clone(states)
	processes := req.managingProcesses(states)
	for i := range all {
		c := controllerOf(&all[i], processes)
		if !all[i].Suspended || c.Name == "" || ref.UID == "" {
			continue
		}
		found, unlisted := req.api.Dependents(req.context(), ref, c.Children)
		err = cmp.Or(err, unlisted)
		for _, d := range found {
			all[i].ChildStates = append(all[i].ChildStates, inspect.Child{Ref: d.Ref, Health: "Unknown", Created: d.Created})
		}
	}
	return all, err
}

// listControllers returns the controllers of all processes.
func (req *request) listControllers() []inspect.Result[[]inspect.Controller] {
	return inspect.QueryAll(req.context(), req.timeouts, req.sources(req.context()),
		func(ctx context.Context, s inspect.Source) ([]inspect.Controller, error) {
			return s.Controllers(ctx)
		})
}

// buildTree builds a tree with unhealthy children first.
func buildTree(ctx context.Context, ref object.Ref, states []inspect.ObjectState, g *ownertree.Builder) (tree, error) {
	g.Nodes, g.Queries, g.Reads = maxNodes, maxCalls, maxReads
	g.Order = func(a, b *ownertree.Node) int { return cmp.Compare(severity(a.Health), severity(b.Health)) }
	t := tree{Node: &ownertree.Node{Child: inspect.Child{Ref: ref}}}
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

// Summary returns how many children are current. The health of children of suspended
// controllers is unknown.
func (t tree) Summary() string {
	if t.Unknown == 0 {
		return fmt.Sprintf("%d of %d current", t.Current, t.Total)
	}
	if t.Unknown == t.Total {
		return fmt.Sprintf("%d, health unknown", t.Total)
	}
	return fmt.Sprintf("%d of %d current, health of %d unknown", t.Current, t.Total, t.Unknown)
}

// incompleteMessage returns why a part of a tree is missing.
func incompleteMessage(err error) string {
	if right, is := userclient.MissingPermission(err); is {
		return "Incomplete: forbidden: " + right.Missing() + "."
	}
	return "Incomplete: " + err.Error() + "."
}

// severity returns the sort order of a health.
func severity(health string) int {
	order := []string{inspect.HealthFailed, inspect.HealthInProgress, inspect.HealthTerminating}
	if i := slices.Index(order, health); i >= 0 {
		return i
	}
	return len(order)
}

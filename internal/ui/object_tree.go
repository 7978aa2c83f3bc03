package ui

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lineage"
)

// tree is what was made of an object.
type tree struct {
	*lineage.Node
	// Well is how many children are current, of Total, and Unknown of how many that is not
	// known.
	Well, Unknown, Total int
	// Missing says what may be missing, and why.
	Missing []string
}

// How much a page shows of a tree, and asks for it.
const (
	maxNodes = 500
	maxAsks  = 100
	maxReads = 200
)

// tree is made of what controllers say that they made, and of what workloads own.
func (v *visit) tree(s *subject, cares []inspect.Care) (tree, error) {
	cares, err := v.withSuspended(s.Ref, cares)
	t, failed := growTree(v.context(), s.Ref, cares, &lineage.Grower{
		API: v.api, May: v.reads, Panel: lineage.NewPanel(v.patience, v.controllers),
	})
	if err != nil {
		t.Missing = append(t.Missing, missingWords(err))
	}
	return t, failed
}

// withSuspended adds what controllers own that are suspended, and watch nothing: the API
// server is asked for it.
func (v *visit) withSuspended(ref inspect.Ref, cares []inspect.Care) (all []inspect.Care, err error) {
	if !slices.ContainsFunc(cares, func(c inspect.Care) bool { return c.Suspended }) {
		return cares, nil
	}
	all = slices.Clone(cares)
	controllers := declared(v.carers(cares))
	for i := range all {
		c, known := controllers[controllerKey{all[i].Process, all[i].Controller}]
		if !all[i].Suspended || !known || ref.UID == "" {
			continue
		}
		found, unlisted := v.api.Dependents(v.context(), ref, c.Children)
		err = cmp.Or(err, unlisted)
		for _, d := range found {
			all[i].Family = append(all[i].Family, inspect.Child{Ref: d.Ref, Health: "Unknown", Created: d.Created})
		}
	}
	return all, err
}

// controllers are those of all processes.
func (v *visit) controllers() []inspect.Answer[[]inspect.Controller] {
	return inspect.AskAll(v.context(), v.patience, v.options.Sources(v.context()), func(ctx context.Context, s inspect.Source) ([]inspect.Controller, error) {
		return s.Controllers(ctx)
	})
}

// growTree puts children first that are not well.
func growTree(ctx context.Context, ref inspect.Ref, cares []inspect.Care, g *lineage.Grower) (tree, error) {
	g.Nodes, g.Asks, g.Reads = maxNodes, maxAsks, maxReads
	g.Order = func(a, b *lineage.Node) int { return cmp.Compare(urgency(a.Health), urgency(b.Health)) }
	t := tree{Node: &lineage.Node{Child: inspect.Child{Ref: ref}}}
	missing, err := g.Grow(ctx, t.Node, cares)
	for _, why := range missing {
		t.Missing = append(t.Missing, missingWords(why))
	}
	t.Total = len(t.Children) + t.More
	for _, child := range t.Children {
		switch child.Health {
		case "Current":
			t.Well++
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
		return fmt.Sprintf("%d of %d current", t.Well, t.Total)
	}
	if t.Unknown == t.Total {
		return fmt.Sprintf("%d, health not known", t.Total)
	}
	return fmt.Sprintf("%d of %d current, health of %d not known", t.Well, t.Total, t.Unknown)
}

// missingWords say why something is not in a tree.
func missingWords(err error) string {
	if right, is := asuser.Missing(err); is {
		return "Not all is shown: you lack the right to " + right.String() + "."
	}
	return "Not all is shown: " + err.Error() + "."
}

// urgency is how soon a child is shown: those first that need somebody.
func urgency(health string) int {
	order := []string{"Failed", "InProgress", "Terminating"}
	if i := slices.Index(order, health); i >= 0 {
		return i
	}
	return len(order)
}

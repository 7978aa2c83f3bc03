package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// The objects of an admission controller are those with recorded reviews, each with its
// latest one.

func (g *objectGetter) reviewHeaders() []string {
	head := []string{"NAME", "REVIEW", "KEPT", "AGE", "MESSAGE"}
	if g.flags.everywhere {
		head = append([]string{"NAMESPACE"}, head...)
	}
	return head
}

func (g *objectGetter) reviewRow(c visibleState, now time.Time) row {
	cells := []string{strings.ToLower(c.Kind.Kind) + "/" + c.Name, c.ReviewOutcome, strconv.Itoa(c.Reviews), ago(c.Ran, now), short(c.Error, maxErrorWidth)}
	if g.flags.everywhere {
		cells = append([]string{c.Namespace}, cells...)
	}
	return row{
		cells: cells, value: c, name: nameArg(c.Ref),
		key: c.Group + "/" + c.Kind.Kind + "/" + c.Namespace + "/" + c.Name, version: fmt.Sprint(c.ReviewOutcome, c.Reviews, c.Error),
	}
}

// reviewed returns the reviewed objects that the user may read, and their total number.
func (g *objectGetter) reviewed(ctx context.Context) ([]visibleState, int, error) {
	q := g.query()
	if !g.flags.everywhere {
		q.Namespace = g.target.Namespace
	}
	all, hidden := []visibleState{}, 0
	for {
		page, err := g.source.Objects(ctx, g.selected.Name, q)
		if err != nil {
			return nil, 0, err
		}
		for _, state := range page.Objects {
			switch {
			case g.name != "" && !isReviewed(g.name, &state):
			case g.permissions.can(ctx, "get", state.Kind, state.Namespace, ""):
				all = append(all, g.permissions.state(ctx, state))
			default:
				hidden++
			}
		}
		if q.Offset += len(page.Objects); len(page.Objects) == 0 || q.Offset >= page.Matching {
			if hidden > 0 && !g.warnedHidden {
				g.warnedHidden = true
				fmt.Fprintf(g.stderr, "warning: %s hidden: you may not get them\n", plural(hidden, "reviewed object is", "reviewed objects are"))
			}
			return all, page.Total, g.permissions.takeErr()
		}
	}
}

// isReviewed reports whether NAME or KIND/NAME matches an object.
func isReviewed(word string, c *model.ObjectState) bool {
	kind, name, named := strings.Cut(word, "/")
	if !named {
		kind, name = "", word
	}
	return name == c.Name && strings.EqualFold(cmp.Or(kind, c.Kind.Kind), c.Kind.Kind)
}

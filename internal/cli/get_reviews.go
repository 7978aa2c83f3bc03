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

func (g *objectGetter) reviewRow(c visibleState, now time.Time) row {
	headers, cells := g.columns(c.Namespace,
		column{header: "NAME", cell: strings.ToLower(c.Kind.Kind) + "/" + c.Name},
		column{header: "REVIEW", cell: c.ReviewOutcome},
		column{header: "KEPT", cell: strconv.Itoa(c.Reviews)},
		column{header: "AGE", cell: ago(c.Ran, now)},
		column{header: "MESSAGE", cell: short(c.Error, maxErrorWidth)},
	)
	return row{
		headers: headers, cells: cells, value: c, name: nameArg(c.Ref),
		key: c.Group + "/" + c.Kind.Kind + "/" + c.Namespace + "/" + c.Name, version: fmt.Sprint(c.ReviewOutcome, c.Reviews, c.Error),
	}
}

// reviewed returns the reviewed objects that the user may read, and their total number.
func (g *objectGetter) reviewed(ctx context.Context) ([]visibleState, int, error) {
	q := g.query()
	if !g.flags.everywhere {
		q.Namespace = g.target.Namespace
	}
	hidden := 0
	all, total, err := g.list(ctx, q, func(c *model.ObjectState) bool {
		if g.name != "" && !isReviewed(g.name, c) {
			return false
		}
		visible := g.permissions.can(ctx, "get", c.Kind, c.Namespace, "")
		if !visible {
			hidden++
		}
		return visible
	})
	if hidden > 0 && !g.warnedHidden {
		g.warnedHidden = true
		fmt.Fprintf(g.stderr, "warning: %s hidden: you cannot get them\n", plural(hidden, "reviewed object is", "reviewed objects are"))
	}
	return all, total, err
}

// isReviewed reports whether NAME or KIND/NAME matches an object.
func isReviewed(word string, c *model.ObjectState) bool {
	kind, name, named := strings.Cut(word, "/")
	if !named {
		kind, name = "", word
	}
	return name == c.Name && strings.EqualFold(cmp.Or(kind, c.Kind.Kind), c.Kind.Kind)
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Of a controller that does nothing but review, the objects are those whose reviews are
// kept: of each the latest review, newest first.

func (g *getting) reviewHead() []string {
	head := []string{"NAME", "REVIEW", "KEPT", "AGE", "MESSAGE"}
	if g.everywhere {
		head = append([]string{"NAMESPACE"}, head...)
	}
	return head
}

func (g *getting) reviewRow(c readable, now time.Time) row {
	cells := []string{strings.ToLower(c.Kind.Kind) + "/" + c.Name, c.Reviewed, strconv.Itoa(c.Reviews), ago(c.Ran, now), short(c.Error, maxTrouble)}
	if g.everywhere {
		cells = append([]string{c.Namespace}, cells...)
	}
	return row{
		cells: cells, value: c, name: nameArg(c.Ref),
		key: c.Group + "/" + c.Kind.Kind + "/" + c.Namespace + "/" + c.Name, same: fmt.Sprint(c.Reviewed, c.Reviews, c.Error),
	}
}

// reviewed are the reviewed objects that the user may read, and how many there are in all.
func (g *getting) reviewed(ctx context.Context) ([]readable, int, error) {
	q := g.query()
	if !g.everywhere {
		q.Namespace = g.found.Namespace
	}
	all, hidden := []readable{}, 0
	for {
		page, err := g.source.Objects(ctx, g.of.Name, q)
		if err != nil {
			return nil, 0, err
		}
		for _, care := range page.Objects {
			switch {
			case g.name != "" && !isReviewed(g.name, &care):
			case g.rights.may(ctx, "get", care.Kind, care.Namespace, ""):
				all = append(all, g.rights.care(ctx, care))
			default:
				hidden++
			}
		}
		if q.Offset += len(page.Objects); len(page.Objects) == 0 || q.Offset >= page.Matching {
			if hidden > 0 && !g.warned {
				g.warned = true
				fmt.Fprintf(g.stderr, "warning: %s left out, which you may not get\n", plural(hidden, "reviewed object is", "reviewed objects are"))
			}
			return all, page.Total, g.rights.sure()
		}
	}
}

// isReviewed says that NAME or KIND/NAME means an object.
func isReviewed(word string, c *inspect.Care) bool {
	kind, name, named := strings.Cut(word, "/")
	if !named {
		kind, name = "", word
	}
	return name == c.Name && strings.EqualFold(cmp.Or(kind, c.Kind.Kind), c.Kind.Kind)
}

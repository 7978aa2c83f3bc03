package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
)

// draw prints a tree as a table whose first column shows the branches.
func (r *session) draw(out io.Writer, root *ownertree.Node, now time.Time) error {
	var rows []row
	var visit func(n *ownertree.Node, lead, below string)
	visit = func(n *ownertree.Node, lead, below string) {
		line := r.treeRow(n, lead, now)
		rows = append(rows, line)
		rest := omittedChildren(n)
		for i, child := range n.Children {
			if i == len(n.Children)-1 && rest == "" {
				visit(child, below+"└─ ", below+"   ")
				continue
			}
			visit(child, below+"├─ ", below+"│  ")
		}
		switch {
		case rest != "" && r.output.isPerObject():
			fmt.Fprintf(r.stderr, "warning: of the children of %s: %s\n", nameOf(n.Ref), rest)
		case rest != "":
			rows = append(rows, row{key: "hidden " + line.key, cells: []string{below + "└─ " + rest}})
		}
	}
	visit(root, "", "")
	return r.printRows(out, r.table(r.stdout), rows)
}

// treeRow returns the row of a node, with the branches that lead to it.
func (r *session) treeRow(n *ownertree.Node, lead string, now time.Time) row {
	message := cmp.Or(n.Error, n.Message)
	if r.output.Value != asWide {
		message = short(message, 80)
	}
	headers, cells := r.columns(
		column{header: "OBJECT", cell: lead + nameOf(n.Ref)},
		column{header: "HEALTH", cell: n.Health},
		column{header: "STATE", cell: string(n.State)},
		column{header: "AGE", cell: ago(n.Created, now)},
		column{header: "MESSAGE", cell: message},
		column{header: "CONTROLLER", cell: strings.Join(n.Controllers, ","), wide: true},
	)
	return row{headers: headers, cells: cells, key: lead + n.UID + n.Name, version: n.UID, value: n, name: nameArg(n.Ref)}
}

// omittedChildren says of children that they are left out; "" if none are.
func omittedChildren(n *ownertree.Node) string {
	var words []string
	if n.More > 0 {
		words = append(words, fmt.Sprintf("and %d more", n.More))
	}
	if n.Hidden > 0 {
		words = append(words, hiddenCount(n.Hidden))
	}
	return strings.Join(words, ", ")
}

package cli

import (
	"io"
	"strings"
	"time"
)

// draw draws a tree, as a table whose first column is the branches.
func (g *growing) draw(out io.Writer, root *node, now time.Time) error {
	t := table{head: []string{"OBJECT", "HEALTH", "STATE", "AGE", "MESSAGE"}}
	isWide := g.output.value == wide
	if isWide {
		t.head = append(t.head, "CONTROLLER")
	}
	var rows []row
	var visit func(n *node, lead, below string)
	visit = func(n *node, lead, below string) {
		message := n.Error
		if message == "" {
			message = n.Message
		}
		if !isWide {
			message = short(message, 80)
		}
		r := row{key: lead + n.UID + n.Name, same: n.UID, cells: []string{lead + nameOf(n.Ref), n.Health, string(n.State), ago(n.Created, now), message}}
		if isWide {
			r.cells = append(r.cells, strings.Join(n.Controllers, ","))
		}
		rows = append(rows, r)
		for i, child := range n.Children {
			if i == len(n.Children)-1 && n.Hidden == 0 {
				visit(child, below+"└─ ", below+"   ")
				continue
			}
			visit(child, below+"├─ ", below+"│  ")
		}
		if n.Hidden > 0 {
			rows = append(rows, row{key: "hidden " + r.key, cells: []string{below + "└─ " + hiddenChildren(n.Hidden)}})
		}
	}
	visit(root, "", "")
	return t.write(out, rows)
}

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/lineage"
)

// draw draws a tree, as a table whose first column is the branches.
func (r *reading) draw(out io.Writer, root *lineage.Node, now time.Time) error {
	t := table{head: []string{"OBJECT", "HEALTH", "STATE", "AGE", "MESSAGE"}, color: wantsColor(r.stdout), width: terminalWidth(r.stdout)}
	isWide := r.output.value == wide
	if isWide {
		t.head = append(t.head, "CONTROLLER")
	}
	var rows []row
	var visit func(n *lineage.Node, lead, below string)
	visit = func(n *lineage.Node, lead, below string) {
		message := n.Error
		if message == "" {
			message = n.Message
		}
		if !isWide {
			message = short(message, 80)
		}
		line := row{key: lead + n.UID + n.Name, same: n.UID, cells: []string{lead + nameOf(n.Ref), n.Health, string(n.State), ago(n.Created, now), message}}
		if isWide {
			line.cells = append(line.cells, strings.Join(n.Controllers, ","))
		}
		rows = append(rows, line)
		rest := left(n)
		for i, child := range n.Children {
			if i == len(n.Children)-1 && rest == "" {
				visit(child, below+"└─ ", below+"   ")
				continue
			}
			visit(child, below+"├─ ", below+"│  ")
		}
		if rest != "" {
			rows = append(rows, row{key: "hidden " + line.key, cells: []string{below + "└─ " + rest}})
		}
	}
	visit(root, "", "")
	return t.write(out, rows)
}

// left says of children that they are left out; "" if none are.
func left(n *lineage.Node) string {
	var words []string
	if n.More > 0 {
		words = append(words, fmt.Sprintf("and %d more", n.More))
	}
	if n.Hidden > 0 {
		words = append(words, hiddenChildren(n.Hidden))
	}
	return strings.Join(words, ", ")
}

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
)

// draw prints a tree as a table whose first column shows the branches.
func (r *session) draw(out io.Writer, root *ownertree.Node, now time.Time) error {
	t := table{headers: []string{"OBJECT", "HEALTH", "STATE", "AGE", "MESSAGE"}, color: wantsColor(r.stdout), width: terminalWidth(r.stdout)}
	isWide := r.output.Value == asWide
	if isWide {
		t.headers = append(t.headers, "CONTROLLER")
	}
	var rows []row
	var visit func(n *ownertree.Node, lead, below string)
	visit = func(n *ownertree.Node, lead, below string) {
		message := n.Error
		if message == "" {
			message = n.Message
		}
		if !isWide {
			message = short(message, 80)
		}
		line := row{key: lead + n.UID + n.Name, version: n.UID, cells: []string{lead + nameOf(n.Ref), n.Health, string(n.State), ago(n.Created, now), message}}
		if isWide {
			line.cells = append(line.cells, strings.Join(n.Controllers, ","))
		}
		rows = append(rows, line)
		rest := omittedChildren(n)
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

package tree

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
)

// draw prints a tree as a table whose first column shows the branches.
func (r *viewer) draw(out io.Writer, root *ownertree.Node, now time.Time) error {
	var rows []output.Row
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
		case rest != "" && r.Output.IsPerObject():
			fmt.Fprintf(r.Stderr, "warning: of the children of %s: %s\n", client.NameOf(n.Ref), rest)
		case rest != "":
			rows = append(rows, output.Row{Key: "hidden " + line.Key, Cells: []string{below + "└─ " + rest}})
		}
	}
	visit(root, "", "")
	return r.PrintRows(out, r.Table(r.Stdout), rows)
}

// treeRow returns the row of a node, with the branches that lead to it.
func (r *viewer) treeRow(n *ownertree.Node, lead string, now time.Time) output.Row {
	message := cmp.Or(n.Error, n.Message)
	if r.Output.Value != output.AsWide {
		message = output.Short(message, 80)
	}
	headers, cells := r.Columns(
		output.Column{Header: "OBJECT", Cell: lead + client.NameOf(n.Ref)},
		output.Column{Header: "HEALTH", Cell: n.Health},
		output.Column{Header: "STATE", Cell: string(n.State)},
		output.Column{Header: "AGE", Cell: output.Ago(n.Created, now)},
		output.Column{Header: "MESSAGE", Cell: message},
		output.Column{Header: "CONTROLLER", Cell: strings.Join(n.Controllers, ","), Wide: true},
	)
	return output.Row{Headers: headers, Cells: cells, Key: lead + n.UID + n.Name, Version: n.UID, Value: n, Name: client.Arg(n.Ref)}
}

// omittedChildren says of children that they are left out; "" if none are.
func omittedChildren(n *ownertree.Node) string {
	var words []string
	if n.More > 0 {
		words = append(words, fmt.Sprintf("and %d more", n.More))
	}
	if n.Hidden > 0 {
		words = append(words, client.HiddenCount(n.Hidden))
	}
	return strings.Join(words, ", ")
}

// Package tree is `setpoint tree`: an object with everything that it owns.
package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Command returns `setpoint tree`.
func Command(p *command.Invocation) *cobra.Command {
	f := &processes.ReadFlags{PrintFlags: output.NewRowFlags()}
	c := &cobra.Command{
		Use:     "tree KIND/NAME",
		Aliases: []string{"trace"},
		Short:   "Show an object with everything it owns, and the health of each",
		Long: `Show an object with its children and their children: those of Setpoint controllers, and
those of Kubernetes, such as the ReplicaSets and Pods of a Deployment.

` + processes.DiscoveryHelp,
		Example: `  setpoint tree team/red -n shop
  setpoint tree team/red -o json
  setpoint tree team/red -w`,
		Args:              client.ObjectArgs,
		ValidArgsFunction: client.Complete(&f.Cluster, &f.Namespace, client.CompleteObject),
		RunE:              func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	f.Register(c)
	return c
}

func run(ctx context.Context, p *command.Invocation, f *processes.ReadFlags, args []string) error {
	r, ref, err := f.OpenObject(ctx, p, args)
	if err != nil {
		return err
	}
	v := &viewer{Session: r}
	last := ""
	return r.Follow(ctx, func(ctx context.Context) error {
		root, err := v.build(ctx, ref)
		if err != nil {
			return err
		}
		var text strings.Builder
		if f.Structured() {
			err = f.PrintValue(&text, root)
		} else {
			err = v.draw(&text, root, time.Now())
		}
		if err != nil || text.String() == last {
			return err
		}
		if last != "" && f.Output.Value != output.AsYAML {
			fmt.Fprintln(r.Stdout)
		}
		last = text.String()
		_, err = fmt.Fprint(r.Stdout, last)
		return err
	})
}

// viewer shows the tree of an object.
type viewer struct {
	*processes.Session
	// missing are the warnings about incomplete parts that were printed last.
	missing processes.Warnings
}

// The limits of a tree: nodes, queries to processes, and objects read for their health.
const (
	maxNodes   = 10000
	maxQueries = 2000
	maxReads   = 2000
)

// build returns the owner tree of an object.
func (r *viewer) build(ctx context.Context, ref object.Ref) (*ownertree.Node, error) {
	stored, err := r.Client.Read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, fmt.Errorf("%s not found", client.NameOf(ref))
	}
	root := rootOf(ref, stored)
	states, err := r.States(ctx, root.Ref)
	if err != nil {
		return nil, err
	}
	call := func(ctx context.Context, s inspect.Source) ([]inspect.Controller, error) { return s.Controllers(ctx) }
	results, err := processes.QueryAll(ctx, r.Session, call) // Those that fail here are not queried again.
	if err != nil {
		return nil, err
	}
	g := ownertree.Builder{
		API: r.Client.API, May: r.Client.CanRead(ctx), Processes: ownertree.NewProcesses(r.Timeouts,
			func() []inspect.Result[[]inspect.Controller] { return results }),
		Nodes: maxNodes, Queries: maxQueries, Reads: maxReads,
	}
	missing, err := g.Build(ctx, root, states)
	if err := cmp.Or(err, r.Client.TakeErr()); err != nil {
		return nil, err
	}
	return root, r.warnMissing(missing)
}

func rootOf(ref object.Ref, stored *object.Object) *ownertree.Node {
	ref.UID = stored.UID()
	n := &ownertree.Node{Child: inspect.Child{Ref: ref, Created: stored.Time("creationTimestamp")}}
	n.Health, n.Message = inspect.HealthOf(stored)
	return n
}

// warnMissing prints new warnings about incomplete parts of a tree. An unreachable API
// server is an error.
func (r *viewer) warnMissing(missing []error) error {
	var problems []error
	for _, why := range missing {
		var list *ownertree.ListError
		switch {
		case errors.Is(why, userclient.ErrUnreachable):
			return why
		case apierrors.IsForbidden(why) && errors.As(why, &list):
			why = fmt.Errorf("skipped %s in namespace %s: you cannot list them", list.Plural, list.Namespace)
		}
		problems = append(problems, why)
	}
	r.missing.Print(r.Stderr, problems...)
	return nil
}

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
		case rest != "" && r.Output.Value == output.AsName:
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
		message = diff.Shorten(message, 80)
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

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (p *program) treeCommand() *cobra.Command {
	f := &readFlags{outputFlags: newOutputFlags(asTable, asWide, asName, asJSON, asYAML)}
	c := &cobra.Command{
		Use:     "tree KIND/NAME",
		Aliases: []string{"trace"},
		Short:   "Show an object with everything it owns, and the health of each",
		Long: `Show an object with its children and their children: those of Setpoint controllers, and
those of Kubernetes, such as the ReplicaSets and Pods of a Deployment.

` + discoveryHelp,
		Example: `  setpoint tree team/red -n shop
  setpoint tree team/red -o json
  setpoint tree team/red -w`,
		Args:              objectArgs,
		ValidArgsFunction: complete(&f.cluster, &f.namespace, completer.object),
		RunE:              func(c *cobra.Command, args []string) error { return p.tree(c.Context(), f, args) },
	}
	f.register(c)
	return c
}

func (p *program) tree(ctx context.Context, f *readFlags, args []string) error {
	r, ref, err := f.openObject(ctx, p, args)
	if err != nil {
		return err
	}
	last := ""
	return r.follow(ctx, func(ctx context.Context) error {
		root, err := r.buildTree(ctx, ref)
		if err != nil {
			return err
		}
		var text strings.Builder
		if f.structured() {
			err = f.printValue(&text, root)
		} else {
			err = r.draw(&text, root, time.Now())
		}
		if err != nil || text.String() == last {
			return err
		}
		if last != "" && f.output.Value != asYAML {
			fmt.Fprintln(r.stdout)
		}
		last = text.String()
		_, err = fmt.Fprint(r.stdout, last)
		return err
	})
}

// The limits of a tree: nodes, queries to processes, and objects read for their health.
const (
	maxNodes   = 10000
	maxQueries = 2000
	maxReads   = 2000
)

// buildTree returns the owner tree of an object.
func (r *session) buildTree(ctx context.Context, ref object.Ref) (*ownertree.Node, error) {
	stored, err := r.permissions.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, fmt.Errorf("%s not found", nameOf(ref))
	}
	root := rootOf(ref, stored)
	states, err := r.states(ctx, root.Ref)
	if err != nil {
		return nil, err
	}
	results, err := queryAll(ctx, r, controllersOf) // Those that fail here are not queried again.
	if err != nil {
		return nil, err
	}
	g := ownertree.Builder{
		API: r.permissions.api, May: r.permissions.canRead(ctx), Processes: ownertree.NewProcesses(r.timeouts,
			func() []inspect.Result[[]inspect.Controller] { return results }),
		Nodes: maxNodes, Queries: maxQueries, Reads: maxReads,
	}
	missing, err := g.Build(ctx, root, states)
	if err := cmp.Or(err, r.permissions.takeErr()); err != nil {
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

// states returns the states of an object that the user may read.
func (r *session) states(ctx context.Context, ref object.Ref) (all []inspect.ObjectState, err error) {
	results, err := queryAll(ctx, r, func(ctx context.Context, s inspect.Source) ([]inspect.ObjectState,
		error) {
		return s.States(ctx, ref)
	})
	for _, a := range results {
		for _, state := range a.Value {
			all = append(all, inspect.RedactState(state, r.permissions.canRead(ctx)))
		}
	}
	return all, err
}

// warnMissing prints new warnings about incomplete parts of a tree. An unreachable API
// server is an error.
func (r *session) warnMissing(missing []error) error {
	var problems []error
	for _, why := range missing {
		var list *userclient.ListError
		switch {
		case errors.Is(why, userclient.ErrUnreachable):
			return why
		case apierrors.IsForbidden(why) && errors.As(why, &list):
			why = fmt.Errorf("skipped %s in namespace %s: you cannot list them", list.Plural, list.Namespace)
		}
		problems = append(problems, why)
	}
	r.hidden.print(r.stderr, problems...)
	return nil
}

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (p *program) treeCommand() *cobra.Command {
	f := &readFlags{output: oneOf(asTable, asWide, asJSON, asYAML)}
	c := &cobra.Command{
		Use:     "tree KIND/NAME",
		Aliases: []string{"trace"},
		Short:   "Show an object, what was made of it, and how all of that is doing",
		Long: `Show an object with the children that controllers made of it, and what was made
of those in turn: by controllers that run here, and by those of Kubernetes, such
as the ReplicaSets and Pods of a Deployment.

` + discoveryHelp,
		Example: `  setpoint tree team/red -n shop
  setpoint tree team/red -o json
  setpoint tree team/red -w`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no object is named; write KIND/NAME")}
			}
			_, _, err := parseObject(args)
			return err
		},
		ValidArgsFunction: complete(&f.cluster, &f.namespace, completer.object),
		RunE:              func(c *cobra.Command, args []string) error { return p.tree(c.Context(), f, args) },
	}
	f.register(c)
	return c
}

func (p *program) tree(ctx context.Context, f *readFlags, args []string) error {
	r, reader, ref, err := f.openObject(ctx, p, args)
	if err != nil {
		return err
	}
	last := ""
	return r.follow(ctx, func(ctx context.Context) error {
		root, err := r.buildTree(ctx, reader, ref)
		if err != nil {
			return err
		}
		var text strings.Builder
		if f.output.value == asJSON || f.output.value == asYAML {
			err = encode(&text, f.output.value, root)
		} else {
			err = r.draw(&text, root, time.Now())
		}
		if err != nil || text.String() == last {
			return err
		}
		if last != "" && f.output.value != asYAML {
			fmt.Fprintln(r.stdout)
		}
		last = text.String()
		_, err = fmt.Fprint(r.stdout, last)
		return err
	})
}

// How large a tree may be, and how much is asked for it.
const (
	maxNodes   = 10000
	maxQueries = 2000
	maxReads   = 2000
)

// buildTree is the tree of an object.
func (r *session) buildTree(ctx context.Context, reader *reader, ref model.Ref) (*ownertree.Node, error) {
	stored, err := reader.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, fmt.Errorf("there is no %s", nameOf(ref))
	}
	root := rootOf(ref, stored)
	states, err := r.states(ctx, root.Ref)
	if err != nil {
		return nil, err
	}
	met, err := queryAll(ctx, r, controllersOf) // Who is silent then is not asked about objects.
	if err != nil {
		return nil, err
	}
	g := ownertree.Builder{
		API: r.permissions.api, May: r.permissions.canRead(ctx), Processes: ownertree.NewProcesses(r.timeouts, func() []model.Result[[]model.Controller] { return met }),
		Nodes: maxNodes, Queries: maxQueries, Reads: maxReads,
	}
	missing, err := g.Build(ctx, root, states)
	if err := cmp.Or(err, r.permissions.takeErr()); err != nil {
		return nil, err
	}
	return root, r.warnMissing(missing)
}

func rootOf(ref model.Ref, stored *object.Object) *ownertree.Node {
	ref.UID = stored.UID()
	n := &ownertree.Node{Child: model.Child{Ref: ref, Created: createdAt(stored)}}
	n.Health, n.Message = model.HealthOf(stored)
	return n
}

func createdAt(o *object.Object) time.Time {
	var at time.Time
	if json.Unmarshal(o.Field("metadata", "creationTimestamp"), &at) != nil {
		return time.Time{} // One that is not stored.
	}
	return at
}

// states are all who care for an object, as far as the user may know.
func (r *session) states(ctx context.Context, ref model.Ref) (all []model.ObjectState, err error) {
	results, err := queryAll(ctx, r, func(ctx context.Context, s model.Source) ([]model.ObjectState, error) { return s.States(ctx, ref) })
	for _, a := range results {
		for _, care := range a.Value {
			all = append(all, model.RedactState(care, r.permissions.canRead(ctx)))
		}
	}
	return all, err
}

// warnMissing says what may be missing from a tree, once while it is watched. That the
// API server does not answer is an error.
func (r *session) warnMissing(missing []error) error {
	var problems []error
	for _, why := range missing {
		var list *userclient.ListError
		switch {
		case errors.Is(why, userclient.ErrUnreachable):
			return why
		case apierrors.IsForbidden(why) && errors.As(why, &list):
			why = fmt.Errorf("you may not list %s in namespace %s, which are left out", list.Plural, list.Namespace)
		}
		problems = append(problems, why)
	}
	r.hidden.print(r.stderr, problems...)
	return nil
}

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

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lineage"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (p *program) treeCommand() *cobra.Command {
	f := &readFlags{output: oneOf(asTable, wide, asJSON, asYAML)}
	c := &cobra.Command{
		Use:     "tree KIND/NAME",
		Aliases: []string{"trace"},
		Short:   "Show an object, what was made of it, and how all of that is doing",
		Long: `Show an object with the children that controllers made of it, and what was made
of those in turn: by controllers that run here, and by those of Kubernetes, such
as the ReplicaSets and Pods of a Deployment.

` + reachHelp,
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
		root, err := r.grow(ctx, reader, ref)
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
	maxNodes = 10000
	maxAsks  = 2000
	maxReads = 2000
)

// grow is the tree of an object.
func (r *reading) grow(ctx context.Context, reader *reader, ref inspect.Ref) (*lineage.Node, error) {
	stored, err := reader.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, fmt.Errorf("there is no %s", nameOf(ref))
	}
	root := rootOf(ref, stored)
	cares, err := r.about(ctx, root.Ref)
	if err != nil {
		return nil, err
	}
	met, err := each(ctx, r, controllersOf) // Who is silent then is not asked about objects.
	if err != nil {
		return nil, err
	}
	g := lineage.Grower{
		API: r.rights.api, May: r.rights.reads(ctx), Panel: lineage.NewPanel(r.patience, func() []inspect.Answer[[]inspect.Controller] { return met }),
		Nodes: maxNodes, Asks: maxAsks, Reads: maxReads,
	}
	missing, err := g.Grow(ctx, root, cares)
	if err := cmp.Or(err, r.rights.sure()); err != nil {
		return nil, err
	}
	return root, r.warnMissing(missing)
}

func rootOf(ref inspect.Ref, stored *object.Object) *lineage.Node {
	ref.UID = stored.UID()
	n := &lineage.Node{Child: inspect.Child{Ref: ref, Created: createdAt(stored)}}
	n.Health, n.Message = inspect.HealthOf(stored)
	return n
}

func createdAt(o *object.Object) time.Time {
	var at time.Time
	if json.Unmarshal(o.Field("metadata", "creationTimestamp"), &at) != nil {
		return time.Time{} // One that is not stored.
	}
	return at
}

// about are all who care for an object, as far as the user may know.
func (r *reading) about(ctx context.Context, ref inspect.Ref) (all []inspect.Care, err error) {
	answers, err := each(ctx, r, func(ctx context.Context, s inspect.Source) ([]inspect.Care, error) { return s.About(ctx, ref) })
	for _, a := range answers {
		for _, care := range a.Value {
			all = append(all, inspect.RedactCare(care, r.rights.reads(ctx)))
		}
	}
	return all, err
}

// warnMissing says what may be missing from a tree, once while it is watched. That the
// API server does not answer is an error.
func (r *reading) warnMissing(missing []error) error {
	var problems []error
	for _, why := range missing {
		var list *asuser.Unlisted
		switch {
		case errors.Is(why, asuser.ErrUnreachable):
			return why
		case apierrors.IsForbidden(why) && errors.As(why, &list):
			why = fmt.Errorf("you may not list %s in namespace %s, which are left out", list.Plural, list.Namespace)
		}
		problems = append(problems, why)
	}
	r.unseen.tell(r.stderr, problems...)
	return nil
}

package composite

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// user is the user of the ServiceAccount; empty for Setpoint itself.
func (r *run) user() string { return r.program.Account.UserFor(r.Stored.Namespace()) }

// writer reads from the API server and writes to it.
type writer interface {
	Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error)
	Update(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error)
	UpdateStatus(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error)
	ApplyPlan(ctx context.Context, p plan.Plan) []apply.Result
	LastManager(ctx context.Context, a plan.Action) (string, error)
}

// writer writes as the controller's ServiceAccount. That of a dry run does not write.
func (r *run) writer() writer {
	if r.dry != nil {
		return r.dry
	}
	return r.tools.Writer.As(r.user())
}

// checkReads returns an error unless the ServiceAccount may read the parent and its children.
func (r *run) checkReads(ctx context.Context) error {
	if err := r.tools.Access.CheckRead(ctx, r.user(), r.program.Parent, r.Stored.Namespace(), r.Stored.Name()); err != nil {
		return err
	}
	return r.checkChildReads(ctx)
}

// checkChildReads returns an error unless the ServiceAccount may read the kinds of children: the caches have
// what Setpoint itself may read. It does not depend on the objects that exist, so that others cannot make a
// run fail by an object of theirs.
func (r *run) checkChildReads(ctx context.Context) error {
	for _, rule := range r.program.Children {
		if rule.Resource.Unserved {
			continue
		}
		namespaces := []string{r.Stored.Namespace()}
		if !r.program.Parent.Namespaced {
			namespaces = r.program.NamespacesOf(rule.Resource)
		}
		if err := r.tools.Access.CheckList(ctx, r.user(), rule.Resource, namespaces...); err != nil {
			return err
		}
	}
	return nil
}

// checkRelatedReads is checkChildReads for what the rules of the customize hook read.
func (c *Controller) checkRelatedReads(ctx context.Context, user string, reads []related.Read) error {
	for _, read := range reads {
		if read.Names == nil {
			if err := c.tools.Access.CheckList(ctx, user, read.Resource, read.Namespace); err != nil {
				return err
			}
		}
		for _, name := range read.Names {
			if err := c.tools.Access.CheckRead(ctx, user, read.Resource, read.Namespace, name); err != nil {
				return err
			}
		}
	}
	return nil
}

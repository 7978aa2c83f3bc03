package compose

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/apply"
)

// user is the user of the ServiceAccount; empty for Setpoint itself.
func (r *run) user() string { return r.program.Account.UserFor(r.Stored.Namespace()) }

// writer writes, and reads from the API server, as the controller's ServiceAccount.
func (r *run) writer() *apply.Writer { return r.tools.Writer.As(r.user()) }

// checkParentRead returns an error unless the ServiceAccount may read the parent.
func (r *run) checkParentRead(ctx context.Context) error {
	return r.tools.Access.CheckRead(ctx, r.user(), r.program.Parent, r.Stored.Namespace(), r.Stored.Name())
}

// checkReads returns an error unless the ServiceAccount may read everything in a request: the caches have
// what Setpoint itself may read.
func (r *run) checkReads(ctx context.Context) error {
	user := r.user()
	if user == "" {
		return nil
	}
	for i, children := range r.children {
		for _, child := range children {
			if err := r.tools.Access.CheckRead(ctx, user, r.program.Children[i].Resource, child.Namespace(), child.Name()); err != nil {
				return err
			}
		}
	}
	for i, group := range r.relatedObjects.Groups {
		for _, o := range group.Objects {
			if err := r.tools.Access.CheckRead(ctx, user, r.relatedObjects.Resources[i], o.Namespace, o.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

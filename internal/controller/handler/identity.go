package handler

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/apply"
)

// userFor is the user of the ServiceAccount for an object in a namespace; empty for Setpoint itself.
func (c *Controller) userFor(namespace string) string { return c.program.Account.UserFor(namespace) }

// writerFor writes, and reads from the API server, as the controller's ServiceAccount.
func (c *Controller) writerFor(namespace string) *apply.Writer {
	return c.tools.Writer.As(c.userFor(namespace))
}

func (r *run) writer() *apply.Writer { return r.writerFor(r.Stored.Namespace()) }

// checkReads returns an error unless the ServiceAccount may read the object and the kinds that it owns: the
// caches have what Setpoint itself may read.
func (r *run) checkReads(ctx context.Context) error {
	user := r.userFor(r.Stored.Namespace())
	if err := r.tools.Access.CheckRead(ctx, user, r.program.Resource, r.Stored.Namespace(), r.Stored.Name()); err != nil {
		return err
	}
	for _, owned := range r.program.Owns {
		if owned.Unserved {
			continue
		}
		namespaces := []string{r.Stored.Namespace()}
		if !r.program.Resource.Namespaced {
			namespaces = r.program.NamespacesOf(owned)
		}
		if err := r.tools.Access.CheckList(ctx, user, owned, namespaces...); err != nil {
			return err
		}
	}
	return nil
}

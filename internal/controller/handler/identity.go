package handler

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// userFor is the user of the ServiceAccount for an object in a namespace; empty for Setpoint itself.
func (c *Controller) userFor(namespace string) string { return c.program.Account.UserFor(namespace) }

// writerFor writes, and reads from the API server, as the controller's ServiceAccount.
func (c *Controller) writerFor(namespace string) *apply.Writer {
	return c.tools.Writer.As(c.userFor(namespace))
}

// writer reads from the API server and writes to it.
type writer interface {
	Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error)
	List(ctx context.Context, resource object.Resource, namespace, selector string) ([]*object.Object, error)
	Ownership(ctx context.Context, resource object.Resource, namespace, name string) (*apply.Ownership, error)
	CreateFor(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error)
	Apply(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error)
	Delete(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error)
	Evict(ctx context.Context, resource object.Resource, pod *object.Object) error
	Patch(ctx context.Context, resource object.Resource, o *object.Object, patch []byte) (*object.Object, error)
	PatchStatus(ctx context.Context, resource object.Resource, o *object.Object, patch []byte) (*object.Object, error)
}

// writer writes as the controller's ServiceAccount. That of a dry run does not write.
func (r *run) writer() writer {
	if r.dry != nil {
		return r.dry
	}
	return r.writerFor(r.Stored.Namespace())
}

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

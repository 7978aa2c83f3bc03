package setpoint

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
)

// List reads the objects of a kind in Reads that match a label selector, such as
// "app=web,tier!=cache"; "" matches all. It reads in the namespace of the handled object,
// or in all namespaces for a cluster-scoped one. Into points to a slice of the kind's
// type, such as *[]corev1.Pod, which List empties first. List reads from the API server
// without a cache: do not call it often.
func (c *Call[T]) List(ctx context.Context, into any, selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return permanentError("List: %w", err)
	}
	slice, err := sliceIn(into)
	if err != nil {
		return permanentError("List: %w", err)
	}
	known, err := c.controller.app.kinds()
	if err != nil {
		return Permanent(err)
	}
	k, err := known.ofType(slice.Type().Elem())
	switch {
	case err != nil:
		return permanentError("List: %w", err)
	case !declares(c.controller.reads, k):
		return permanentError("List: declare %s with Reads", k)
	case c.request.Reader == nil:
		return Permanent(errors.New("List: the request has no reader"))
	}
	group, err := c.request.Reader.List(ctx, k.apiVersion, k.kind, c.request.Namespace, selector)
	if err != nil {
		return fmt.Errorf("List: %w", err)
	}
	return fill(slice, group)
}

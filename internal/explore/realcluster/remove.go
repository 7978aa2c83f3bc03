package realcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// End removes the objects and the namespaces that were created since Begin, also if the context has ended.
func (c *Cluster) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*limit)
	defer cancel()
	r := &removal{Cluster: c}
	for _, path := range slices.Backward(c.created) {
		r.do(func() error { return c.removeObject(ctx, path) })
	}
	for _, name := range c.namespaces {
		r.do(func() error { return c.remove(ctx, "/api/v1/namespaces/"+name) })
	}
	for _, name := range c.namespaces {
		r.do(func() error {
			return c.await(ctx, "the namespace "+name+" is gone", "/api/v1/namespaces/"+name, http.StatusNotFound)
		})
	}
	c.created, c.namespaces = nil, nil
	return errors.Join(r.problems...)
}

// Close removes the CRDs, also if the context has ended.
func (c *Cluster) Close(ctx context.Context) error {
	problem := c.End(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*limit)
	defer cancel()
	r := &removal{Cluster: c}
	for _, path := range c.kinds {
		r.do(func() error { return c.remove(ctx, path) })
		r.do(func() error { return c.await(ctx, path+" is gone", path, http.StatusNotFound) })
	}
	c.kinds = nil
	return errors.Join(append([]error{problem}, r.problems...)...)
}

// removal collects what goes wrong. Without an API server it ends: each further request would wait for it, too.
type removal struct {
	*Cluster

	problems []error
}

func (r *removal) do(remove func() error) {
	if r.lost {
		return
	}
	err := remove()
	if errors.As(err, new(errUnreachable)) {
		r.lost = true
		err = fmt.Errorf("%w; what the replay has created stays: once the API server responds, run: %s", err, Cleanup)
	}
	r.problems = append(r.problems, err)
}

// removeObject removes an object and its finalizers: the processes that have set them are gone.
func (c *Cluster) removeObject(ctx context.Context, path string) error {
	if _, _, err := c.send(ctx, http.MethodPatch, path, "application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`)); err != nil {
		return fmt.Errorf("remove the finalizers of %s: %w", path, err)
	}
	return c.remove(ctx, path)
}

// remove deletes what is at a path, if it exists.
func (c *Cluster) remove(ctx context.Context, path string) error {
	body := []byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background","gracePeriodSeconds":0}`)
	code, message, err := c.send(ctx, http.MethodDelete, path, "application/json", body)
	if err == nil && code >= http.StatusBadRequest && code != http.StatusNotFound && code != http.StatusConflict {
		err = errors.New(message)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

package apptest

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cleanupTimeout bounds the deletion of a test's objects.
const cleanupTimeout = 10 * time.Second

// cleanUp is the end of a test: its apps stop, and what would be in the way of other
// tests goes.
func (c *Cluster) cleanUp() {
	c.t.Helper()
	c.Stop()
	defer c.tenants.release(c.shared)
	if c.t.Failed() {
		c.t.Logf("the test's namespace is %s, of KUBECONFIG=%s", c.namespace, c.client.kubeconfig)
		if !c.external {
			c.t.Logf("which ends with the tests; to look at what is left, name one that stays in $%s", kubeconfigVariable)
		}
	}
	if c.external && c.t.Failed() {
		return
	}
	if err := c.deleteCreated(c.external); err != nil {
		c.t.Logf("clean up after the test: %v", err)
	}
}

// deleteCreated deletes the cluster-scoped objects that a test has created, and its
// namespace if all is set or an app that watches all namespaces may see it. It removes
// finalizers too: no controller is running that would.
func (c *Cluster) deleteCreated(all bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), cleanupTimeout)
	defer cancel()
	var errs []error
	c.mu.Lock()
	made := c.created
	all = all || c.allNamespaces
	c.mu.Unlock()
	for _, ref := range made {
		errs = append(errs, c.remove(ctx, ref))
	}
	if all {
		errs = append(errs, c.removeNamespace(ctx))
	}
	return errors.Join(errs...)
}

// removeNamespace deletes the test's namespace and waits until it is empty. The
// namespace itself stays some seconds longer.
func (c *Cluster) removeNamespace(ctx context.Context) error {
	ref, err := c.reference(kind{"v1", "Namespace"}, "", c.namespace)
	if err != nil {
		return err
	}
	if err := c.deleteObject(ref); err != nil {
		return err
	}
	kinds, err := c.client.collections()
	if err != nil {
		return err
	}
	for {
		left := 0
		for _, each := range kinds {
			n, err := c.emptyNamespace(ctx, each)
			if err != nil {
				return err
			}
			left += n
		}
		if left == 0 {
			return nil
		}
		if !wait(ctx, interval) {
			return fmt.Errorf("wait until %s is empty: %w", ref, ctx.Err())
		}
	}
}

// emptyNamespace deletes the objects of a kind in the test's namespace, whatever holds them.
// It says how many there were.
func (c *Cluster) emptyNamespace(ctx context.Context, r resource) (left int, err error) {
	all := c.client.objects(r, c.namespace)
	found, err := all.List(ctx, metav1.ListOptions{})
	if err != nil || len(found.Items) == 0 {
		return 0, ignoreNotFound(err)
	}
	at := int64(0)
	err = all.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &at}, metav1.ListOptions{})
	for i := range found.Items {
		if o := &found.Items[i]; err == nil && len(o.GetFinalizers()) > 0 {
			err = c.removeFinalizers(ctx, reference{resource: r, namespace: c.namespace, name: o.GetName()})
		}
	}
	return len(found.Items), ignoreNotFound(err)
}

// remove deletes an object and waits until it is gone.
func (c *Cluster) remove(ctx context.Context, ref reference) error {
	if err := c.deleteObject(ref); err != nil {
		return ignoreNotFound(err)
	}
	if err := c.removeFinalizers(ctx, ref); err != nil {
		return err
	}
	for {
		if err := c.present(ctx, ref); err != nil {
			return ignoreNotFound(err)
		}
		if !wait(ctx, interval) {
			return fmt.Errorf("wait until %s is gone: %w", ref, ctx.Err())
		}
	}
}

// removeFinalizers takes the finalizers off an object.
func (c *Cluster) removeFinalizers(ctx context.Context, ref reference) error {
	_, err := c.objects(ref).Patch(ctx, ref.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{FieldManager: fieldManager})
	return ignoreNotFound(err)
}

// present is nil while an object is there.
func (c *Cluster) present(ctx context.Context, ref reference) error {
	_, err := c.objects(ref).Get(ctx, ref.name, metav1.GetOptions{})
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// fieldManager is the field manager of applied manifests.
	fieldManager = "setpoint-dev"
	// applyTimeout bounds retries while the API server restarts.
	applyTimeout = 8 * time.Second
	// newKindTimeout bounds retries until a new kind is served. Until then an unknown kind
	// looks the same.
	newKindTimeout = 2 * time.Second
	retryEvery     = 150 * time.Millisecond
)

// cluster applies and deletes objects of a cluster of our own.
type cluster struct {
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
	mapper    meta.ResettableRESTMapper
}

func connect(config *rest.Config) (*cluster, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &cluster{client, served, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(served))}, nil
}

// apply applies an object, with retries of transient errors.
func (c *cluster) apply(ctx context.Context, object *unstructured.Unstructured) error {
	return c.retry(ctx, object.GroupVersionKind(), func() error { return c.patch(ctx, object) })
}

// patch applies an object server-side.
func (c *cluster) patch(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resource(object.GroupVersionKind(), object.GetNamespace())
	if err != nil {
		return err
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	force := true
	_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, text,
		metav1.PatchOptions{FieldManager: fieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict})
	return err
}

func (c *cluster) complete([]Document) error { return nil }

func (c *cluster) begin(context.Context, string, []Document) error { return nil }

func (c *cluster) end(context.Context) error { return nil }

// delete deletes an object; a missing one is not an error.
func (c *cluster) delete(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	resource, err := c.resource(object.GroupVersionKind(), object.GetNamespace())
	if meta.IsNoMatchError(err) { // The kind was deleted with its objects.
		return true, nil
	}
	if err != nil {
		return false, err
	}
	background := metav1.DeletePropagationBackground
	err = resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil, err
}

// established waits until a new kind is served.
func (c *cluster) established(ctx context.Context, definition *unstructured.Unstructured) error {
	resource, err := c.resource(definition.GroupVersionKind(), "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	err = poll(ctx, func() (bool, error) {
		now, err := resource.Get(ctx, definition.GetName(), metav1.GetOptions{})
		return err == nil && isEstablished(now), err
	})
	c.mapper.Reset()
	if err != nil {
		return fmt.Errorf("wait until it is established: %w", err)
	}
	return nil
}

func isEstablished(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// resource returns the client for a kind. A missing namespace is "default", as in kubectl.
func (c *cluster) resource(kind schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	resource := c.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return resource, nil
	}
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return resource.Namespace(namespace), nil
}

// retry retries do while its error is transient.
func (c *cluster) retry(ctx context.Context, kind schema.GroupVersionKind, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	began := time.Now()
	return poll(ctx, func() (bool, error) {
		err := do()
		if meta.IsNoMatchError(err) {
			c.mapper.Reset()
			return time.Since(began) > newKindTimeout, err
		}
		return !isRetryable(err, kind), err
	})
}

// isRetryable reports whether an error is transient.
func isRetryable(err error, kind schema.GroupVersionKind) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	// Pods are forbidden until a new namespace has its service account.
	young := apierrors.IsForbidden(err) && kind.Kind == "Pod"
	return young || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// poll repeats try until it is done. If ctx ends first it returns the last error of try.
func poll(ctx context.Context, try func() (done bool, err error)) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, retryEvery, true, func(context.Context) (bool, error) {
		done, err := try()
		if done {
			return true, err
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return cmp.Or(last, context.Cause(ctx), err)
	}
	return err
}

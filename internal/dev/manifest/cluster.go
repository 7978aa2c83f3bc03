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
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// fieldManager owns the fields that manifests set.
	fieldManager = "setpoint-dev"
	// applyTimeout is how long a cluster may take to get over a restart of its API
	// server.
	applyTimeout = 8 * time.Second
	// newKindTimeout is how long a kind may take to be served once it is defined; a
	// kind that does not exist looks the same until then.
	newKindTimeout = 2 * time.Second
	retryEvery     = 150 * time.Millisecond
)

// cluster applies and deletes single objects.
type cluster struct {
	dynamic dynamic.Interface
	mapper  meta.ResettableRESTMapper
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
	return &cluster{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(served))}, nil
}

// apply writes the object with server-side apply. What may right itself within
// seconds is tried again.
func (c *cluster) apply(ctx context.Context, object *unstructured.Unstructured) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	force := true
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict}
	return c.retry(ctx, object.GroupVersionKind(), func() error {
		resource, err := c.resource(object.GroupVersionKind(), object.GetNamespace())
		if err != nil {
			return err
		}
		_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, text, options)
		return err
	})
}

// delete removes an object; one that is gone already is no error.
func (c *cluster) delete(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resource(object.GroupVersionKind(), object.GetNamespace())
	if meta.IsNoMatchError(err) { // The kind went, and the object with it.
		return nil
	}
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	err = resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// established waits until a kind that was just defined can be used.
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

// resource is where objects of the kind are served; a namespaced one without a
// namespace goes to "default", as kubectl has it.
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

// retry repeats do for as long as its error may go away by itself.
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

// isRetryable says whether an error may go away by itself.
func isRetryable(err error, kind schema.GroupVersionKind) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	// A new namespace gets its service account a moment later, and until then no pod.
	young := apierrors.IsForbidden(err) && kind.Kind == "Pod"
	return young || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// poll repeats try until it is done. When ctx ends first the error is the last
// that try gave: it says what was wrong, where the context only says when.
func poll(ctx context.Context, try func() (done bool, err error)) error {
	ticker := time.NewTicker(retryEvery)
	defer ticker.Stop()
	var last error
	for {
		done, err := try()
		if done {
			return err
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return cmp.Or(last, context.Cause(ctx))
		}
	}
}

package manifest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
)

// Remove deletes an object by its UID if a run has created it, and takes it from the inventory once it is
// gone. Otherwise it returns why the object stays.
func (s *Shared) Remove(ctx context.Context, e inventory.Entry) (kept string, err error) {
	kind := schema.FromAPIVersionAndKind(e.APIVersion, e.Kind)
	resource, err := s.resource(kind, e.Namespace)
	if meta.IsNoMatchError(err) { // The kind was deleted with its objects.
		return "", s.forget(ctx, e)
	}
	if err != nil {
		return "", err
	}
	stored, err := resource.Get(ctx, e.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", s.forget(ctx, e)
	}
	if err != nil {
		return "", err
	}
	if !s.Inventory.Owns(e, stored) {
		return "is another object now, which no run has created", s.forget(ctx, e)
	}
	if foreign, err := s.foreignIn(ctx, stored); err != nil || foreign != "" {
		return foreign, err
	}
	uid, background := stored.GetUID(), metav1.DeletePropagationBackground
	err = resource.Delete(ctx, e.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", err
	}
	return s.awaitGone(ctx, e, stored)
}

func (s *Shared) forget(ctx context.Context, e inventory.Entry) error {
	s.Inventory.Forget(e)
	return s.Inventory.Store(ctx)
}

// awaitGone waits for an object that is being deleted, unless it has finalizers, which may last.
func (s *Shared) awaitGone(ctx context.Context, e inventory.Entry, o *unstructured.Unstructured) (kept string, err error) {
	resource, err := s.resource(o.GroupVersionKind(), e.Namespace)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, removalTimeout(o))
	defer cancel()
	var now *unstructured.Unstructured
	err = poll(limited, func() (bool, error) {
		now, err = resource.Get(limited, e.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && now.GetUID() != o.GetUID(), nil
	})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return "", s.forget(ctx, e)
	case now != nil && len(now.GetFinalizers()) > 0:
		return "is being deleted, and waits for the finalizer " + strings.Join(now.GetFinalizers(), ", "), nil
	}
	return "is being deleted", nil
}

// removalTimeout is how long to wait for an object that is being deleted. The API server and the controller manager
// take their time for all objects of a CRD or a Namespace, and are not to be mistaken for what holds it.
func removalTimeout(o *unstructured.Unstructured) time.Duration {
	switch RefOf(o).GroupKind() {
	case crdKind, namespaceKind:
		return time.Minute
	}
	return applyTimeout
}

// foreignIn says which objects of others a CRD or a Namespace has, with which they would be deleted; "" for
// none, and for other kinds.
func (s *Shared) foreignIn(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	var found []string
	var err error
	switch RefOf(o).GroupKind() {
	case crdKind:
		found, err = s.foreignOfKind(ctx, o)
	case namespaceKind:
		found, err = s.foreignInNamespace(ctx, o.GetName())
	}
	if err != nil || len(found) == 0 {
		return "", err
	}
	slices.Sort(found)
	return "has objects that no run has created, such as " + strings.Join(found[:min(3, len(found))], ", "), nil
}

// foreignOfKind returns the custom resources of a CRD that no run has created.
func (s *Shared) foreignOfKind(ctx context.Context, definition *unstructured.Unstructured) ([]string, error) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	stored, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
	if len(stored) == 0 {
		return nil, nil
	}
	all, err := s.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: stored[0], Resource: plural}).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // It is not served any more.
	}
	if err != nil {
		return nil, fmt.Errorf("list its objects: %w", err)
	}
	return s.foreign(all.Items), nil
}

// foreign returns the names of objects that no run has created, except those with an owner, which go with it.
func (s *Shared) foreign(all []unstructured.Unstructured) []string {
	var names []string
	for i := range all {
		o := &all[i]
		if o.GetDeletionTimestamp() == nil && len(o.GetOwnerReferences()) == 0 && !s.Inventory.Owns(entryOf(o), o) {
			names = append(names, RefOf(o).String())
		}
	}
	return names
}

// inEveryNamespace reports whether an object is one that every namespace has.
func inEveryNamespace(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Event":
		return true
	case "ServiceAccount":
		return o.GetName() == "default"
	case "ConfigMap":
		return o.GetName() == "kube-root-ca.crt"
	}
	return false
}

// foreignInNamespace returns the objects of a namespace that no run has created.
func (s *Shared) foreignInNamespace(ctx context.Context, namespace string) ([]string, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(s.discovery)
	if err != nil {
		return nil, fmt.Errorf("look for its objects: %w", err)
	}
	var names []string
	for _, list := range lists {
		for _, served := range list.APIResources {
			if !slices.Contains(served.Verbs, "list") || !slices.Contains(served.Verbs, "create") {
				continue
			}
			gv, _ := schema.ParseGroupVersion(list.GroupVersion) // The API server has formatted it.
			all, err := s.dynamic.Resource(gv.WithResource(served.Name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("look for its objects: list %s: %w", served.Name, err)
			}
			others := slices.DeleteFunc(all.Items, func(o unstructured.Unstructured) bool { return inEveryNamespace(&o) })
			names = append(names, s.foreign(others)...)
		}
	}
	return names, nil
}

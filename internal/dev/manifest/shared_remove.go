package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	crdschema "github.com/setpoint-dev/setpoint/internal/schema"
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
	err = resource.Delete(ctx, e.Name, metav1.DeleteOptions{PropagationPolicy: &background,
		Preconditions: &metav1.Preconditions{UID: &uid}})
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
	last := o // The last read may fail because the time is over.
	err = poll(limited, func() (bool, error) {
		now, err := resource.Get(limited, e.Name, metav1.GetOptions{})
		if err == nil {
			last = now
		}
		return apierrors.IsNotFound(err) || last.GetUID() != o.GetUID(), nil
	})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return "", s.forget(ctx, e)
	case len(last.GetFinalizers()) > 0:
		return "is being deleted, and waits for the finalizer " + strings.Join(last.GetFinalizers(), ", "), nil
	}
	return "is being deleted", nil
}

// removalTimeout is how long to wait for an object that is being deleted. The API server and the controller manager
// take their time for all objects of a CRD or a Namespace, and are not to be mistaken for what holds it.
func removalTimeout(o *unstructured.Unstructured) time.Duration {
	if stage(RefOf(o)) == 0 {
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
		if others := otherManagers(o); len(others) > 0 {
			return "is also managed by " + strings.Join(others, ", "), nil
		}
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

// otherManagers returns who else has set the spec of an object, such as a Setpoint that was installed later.
func otherManagers(o *unstructured.Unstructured) []string {
	var names []string
	for _, entry := range o.GetManagedFields() {
		if entry.Manager != fieldManager && entry.Subresource == "" && entry.FieldsV1 != nil &&
			strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// foreignOfKind returns the custom resources of a CRD that no run has created. Any version that is served has
// all of them.
func (s *Shared) foreignOfKind(ctx context.Context, definition *unstructured.Unstructured) ([]string, error) {
	if !isEstablished(definition) {
		return nil, nil
	}
	text, err := definition.MarshalJSON()
	var served []crdschema.Served
	if err == nil {
		served, err = crdschema.OfCRD(text)
	}
	if err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Group: served[0].Group, Version: served[0].Version, Resource: served[0].Plural}
	all, err := s.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list its objects: %w", err)
	}
	return s.foreign(ctx, all.Items)
}

// foreign returns the names of objects that no run has created, except those whose owner a run has created or
// that has gone: these go with it.
func (s *Shared) foreign(ctx context.Context, all []unstructured.Unstructured) ([]string, error) {
	var names []string
	for i := range all {
		o := &all[i]
		if o.GetDeletionTimestamp() != nil || s.Inventory.Owns(entryOf(o), o) {
			continue
		}
		owned, err := s.goesWithOwner(ctx, o, map[types.UID]bool{})
		if err != nil {
			return nil, err
		}
		if !owned {
			names = append(names, RefOf(o).String())
		}
	}
	return names, nil
}

// goesWithOwner reports whether an object has owners, and all of them are gone or go with objects that a run has
// created. Owners that were seen form a circle, which holds nothing.
func (s *Shared) goesWithOwner(ctx context.Context, o *unstructured.Unstructured, seen map[types.UID]bool) (bool, error) {
	owners := o.GetOwnerReferences()
	for _, owner := range owners {
		if seen[owner.UID] {
			continue
		}
		seen[owner.UID] = true
		stays, err := s.ownerStays(ctx, o.GetNamespace(), owner, seen)
		if err != nil || stays {
			return false, err
		}
	}
	return len(owners) > 0, nil
}

func (s *Shared) ownerStays(ctx context.Context, namespace string, owner metav1.OwnerReference, seen map[types.UID]bool) (bool, error) {
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the owner %s %s: %w", owner.Kind, owner.Name, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		namespace = ""
	}
	stored, err := s.dynamic.Resource(mapping.Resource).Namespace(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the owner %s %s: %w", owner.Kind, owner.Name, err)
	case stored.GetUID() != owner.UID || s.Inventory.Owns(entryOf(stored), stored):
		return false, nil
	}
	goes, err := s.goesWithOwner(ctx, stored, seen)
	return !goes, err
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
			foreign, err := s.foreign(ctx, others)
			if err != nil {
				return nil, err
			}
			names = append(names, foreign...)
		}
	}
	return names, nil
}

// delete deletes an object that a run has created, and reports whether it did. Others stay.
func (s *Shared) delete(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	kept, err := s.Remove(ctx, entryOf(o))
	if err != nil || kept == "" {
		return err == nil, err
	}
	return false, errors.New(kept)
}

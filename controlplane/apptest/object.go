package apptest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// Apply creates objects or changes those that are there, by server-side apply. Each
// argument is a manifest, YAML as a string or as bytes with any number of objects
// in it, or a pointer to an object of a Go type, which is then as the API server
// has it. An object is in the test's namespace unless it says otherwise.
//
// Kinds of Go types are found as the app finds them that was started last; before
// that, those of k8s.io/api and those that say their apiVersion and kind are known.
func (c *Cluster) Apply(objects ...any) {
	c.t.Helper()
	for _, one := range objects {
		if err := c.apply(one); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *Cluster) apply(one any) error {
	switch one := one.(type) {
	case string:
		return c.applyManifest([]byte(one))
	case []byte:
		return c.applyManifest(one)
	}
	if reflect.ValueOf(one).Kind() != reflect.Pointer {
		return fmt.Errorf("apply a %T: give a pointer to it, or a manifest", one)
	}
	o, err := c.generic(one)
	if err != nil {
		return err
	}
	stored, err := c.applyObject(o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(stored.Object)
	if err == nil {
		err = json.Unmarshal(data, one)
	}
	return err
}

// generic is an object of a Go type, with its kind.
func (c *Cluster) generic(of any) (*unstructured.Unstructured, error) {
	k, err := c.kindOf(of)
	if err != nil {
		return nil, err
	}
	o, err := generic(of)
	if err != nil {
		return nil, err
	}
	o.SetAPIVersion(k.apiVersion)
	o.SetKind(k.kind)
	return o, nil
}

func (c *Cluster) applyManifest(text []byte) error {
	all, err := parse(text)
	if err != nil {
		return err
	}
	for _, o := range all {
		if _, err := c.applyObject(o); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) applyObject(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ref, err := c.reference(kind{o.GetAPIVersion(), o.GetKind()}, o.GetNamespace(), o.GetName())
	if err != nil {
		return nil, err
	}
	o.SetNamespace(ref.namespace)
	o.SetManagedFields(nil) // An object that was read before has some.
	o.SetResourceVersion("")
	ctx, cancel := c.context()
	defer cancel()
	stored, err := c.objects(ref).Apply(ctx, ref.name, o, forced())
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", ref, err)
	}
	c.recordCreated(ref)
	return stored, c.awaitServed(stored)
}

// recordCreated remembers an object that does not go with the test's namespace.
func (c *Cluster) recordCreated(ref reference) {
	if ref.namespace == c.namespace || ref.Resource == "customresourcedefinitions" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.created = append(c.created, ref)
}

// Get returns an object by its name, or "namespace/name" for another namespace. It fails
// the test if the object does not exist.
func Get[T any](c *Cluster, name string) *T {
	c.t.Helper()
	found, _, err := get[T](c, name)
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

func get[T any](c *Cluster, name string) (*T, *unstructured.Unstructured, error) {
	ref, err := named[T](c, name)
	if err != nil {
		return nil, nil, err
	}
	return read[T](c, ref)
}

func read[T any](c *Cluster, ref reference) (*T, *unstructured.Unstructured, error) {
	ctx, cancel := c.context()
	defer cancel()
	stored, err := c.objects(ref).Get(ctx, ref.name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("get %s: %w", ref, err)
	}
	found, err := typed[T](stored)
	return found, stored, err
}

// List are the objects of a kind in the test's namespace (in all, if it lives in
// none) that match a label selector such as "app=web"; "" matches all.
func List[T any](c *Cluster, selector string) []T {
	c.t.Helper()
	all, err := list[T](c, selector)
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

func list[T any](c *Cluster, selector string) ([]T, error) {
	ref, err := named[T](c, "")
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.context()
	defer cancel()
	found, err := c.objects(ref).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", ref.Resource, err)
	}
	all := make([]T, 0, len(found.Items))
	for i := range found.Items {
		one, err := typed[T](&found.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, *one)
	}
	return all, nil
}

// Update changes an object and its status as a user would: it sends only the changes of do,
// and calls do again after a conflict.
func Update[T any](c *Cluster, name string, do func(*T)) *T {
	c.t.Helper()
	var updated *T
	err := c.poll(func() (final bool, err error) {
		updated, err = update(c, name, do)
		return !apierrors.IsConflict(err), err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return updated
}

func update[T any](c *Cluster, name string, do func(*T)) (*T, error) {
	ref, err := named[T](c, name)
	if err != nil {
		return nil, err
	}
	now, stored, err := read[T](c, ref)
	if err != nil {
		return nil, err
	}
	before, err := generic(now)
	if err != nil {
		return nil, err
	}
	do(now)
	after, err := generic(now)
	if err != nil {
		return nil, err
	}
	patch, err := difference(before.Object, after.Object)
	if err != nil {
		return nil, err
	}
	stored, err = c.patch(ref, stored, patch)
	if err != nil {
		return nil, err
	}
	return typed[T](stored)
}

// patch writes what was changed of an object: its status where that is written.
func (c *Cluster) patch(ref reference, stored *unstructured.Unstructured, patch map[string]any) (*unstructured.Unstructured, error) {
	status, changed := patch["status"]
	if changed && ref.hasStatus {
		delete(patch, "status")
	}
	var err error
	if len(patch) > 0 {
		if stored, err = c.patchOnce(ref, stored, patch); err != nil {
			return nil, err
		}
	}
	if changed && ref.hasStatus {
		return c.patchOnce(ref, stored, map[string]any{"status": status}, "status")
	}
	return stored, nil
}

// patchOnce writes a patch, unless the object has been changed by others.
func (c *Cluster) patchOnce(ref reference, stored *unstructured.Unstructured, patch map[string]any,
	sub ...string) (*unstructured.Unstructured, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = stored.GetResourceVersion()
	patch["metadata"] = metadata
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.context()
	defer cancel()
	stored, err = c.objects(ref).Patch(ctx, ref.name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager}, sub...)
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", ref, err)
	}
	return stored, nil
}

// Delete deletes an object, and does not wait until it is gone: see AwaitGone.
func Delete[T any](c *Cluster, name string) {
	c.t.Helper()
	ref, err := named[T](c, name)
	if err == nil {
		err = c.deleteObject(ref)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) deleteObject(ref reference) error {
	ctx, cancel := c.context()
	defer cancel()
	background := metav1.DeletePropagationBackground
	if err := c.objects(ref).Delete(ctx, ref.name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return fmt.Errorf("delete %s: %w", ref, err)
	}
	return nil
}

// named is an object of a Go type by its name, or by namespace/name.
func named[T any](c *Cluster, name string) (reference, error) {
	k, err := c.kindOf(new(T))
	if err != nil {
		return reference{}, err
	}
	namespace, rest, elsewhere := strings.Cut(name, "/")
	if !elsewhere {
		namespace, rest = "", name
	}
	return c.reference(k, namespace, rest)
}

// reference is an object of a kind. One without a namespace is in the test's, if
// its kind lives in any.
func (c *Cluster) reference(k kind, namespace, name string) (reference, error) {
	found, err := c.client.find(k)
	if err != nil {
		return reference{}, err
	}
	switch {
	case !found.namespaced:
		namespace = ""
	case namespace == "":
		namespace = c.namespace
	}
	return reference{resource: found, kind: k, namespace: namespace, name: name}, nil
}

// kindOf is the kind of an object of a Go type.
func (c *Cluster) kindOf(o any) (kind, error) {
	if u, ok := o.(*setpoint.Unstructured); ok && u.GetKind() == "" {
		if c.untyped == (kind{}) {
			return kind{}, fmt.Errorf("%T may be of any kind: say which with Cluster.Of", *u)
		}
		return c.untyped, nil
	}
	c.mu.Lock()
	app := c.app
	c.mu.Unlock()
	k, err := sdk.Of(app).KindOf(o)
	return kind{k.APIVersion, k.Name}, err
}

func (c *Cluster) objects(ref reference) dynamic.ResourceInterface {
	return c.client.objects(ref.resource, ref.namespace)
}

// awaitServed waits until the API server has the kinds of a definition that was applied.
func (c *Cluster) awaitServed(stored *unstructured.Unstructured) error {
	if stored.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	var definition struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
			}
		}
	}
	data, err := json.Marshal(stored.Object)
	if err == nil {
		err = json.Unmarshal(data, &definition)
	}
	if err != nil {
		return err
	}
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		k := kind{definition.Spec.Group + "/" + version.Name, definition.Spec.Names.Kind}
		if err := c.poll(func() (bool, error) { _, err := c.client.find(k); return err == nil, err }); err != nil {
			return err
		}
	}
	return nil
}

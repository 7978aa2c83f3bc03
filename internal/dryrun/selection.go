package dryrun

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Selection selects objects of a controller. The fields add up.
type Selection struct {
	// Names are stored objects.
	Names []ObjectName
	// Manifests are objects in files, stored or not. Those of other kinds are ignored.
	Manifests []*object.Object
	// All selects all stored objects.
	All bool
	// Namespace is the default namespace. Lists are limited to it unless AllNamespaces is set.
	Namespace     string
	AllNamespaces bool
}

// listNamespace returns the namespace to list; empty for all.
func (c Selection) listNamespace() string {
	if c.AllNamespaces {
		return ""
	}
	return c.Namespace
}

// configMaps returns the ConfigMaps in files, which may hold the code of inline hooks.
func (c Selection) configMaps() []*object.Object {
	var all []*object.Object
	for _, one := range c.Manifests {
		if one.GroupKind() != object.ConfigMaps.GroupKind() {
			continue
		}
		if placed, err := inNamespace(one, cmp.Or(one.Namespace(), c.Namespace)); err == nil {
			all = append(all, placed)
		}
	}
	return all
}

// ObjectName is the name of an object in the default namespace. Kind is the plural with its group,
// such as "deployments.apps", and optional if the controller has one kind.
type ObjectName struct{ Kind, ObjectName string }

// String returns "kind/name", or "name".
func (n ObjectName) String() string {
	if n.Kind == "" {
		return n.ObjectName
	}
	return n.Kind + "/" + n.ObjectName
}

// targets returns the selected objects.
func (o Options) targets(ctx context.Context, r *run) ([]target, error) {
	var all []target
	for _, name := range o.Selection.Names {
		i, err := programOf(r, name.Kind, o.Selection.Namespace)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, target{program: i, key: objectKey(r.kinds()[i], o.Selection.Namespace, name.ObjectName)})
	}
	for _, given := range o.Selection.Manifests {
		if s, ours := o.fromManifest(ctx, r, given); ours {
			all = append(all, s)
		}
	}
	if !o.Selection.All {
		return dedupe(all), nil
	}
	for _, parent := range r.objects() {
		i := programFor(r, parent.Ref())
		if i < 0 {
			return nil, fmt.Errorf("%s: the controller does not manage that kind", parent.Ref())
		}
		all = append(all, target{program: i, key: queue.Key{Namespace: parent.Namespace(), Name: parent.Name()}})
	}
	return dedupe(all), nil
}

// dedupe removes duplicates. A manifest goes before a stored object.
func dedupe(all []target) []target {
	type place struct {
		program int
		key     queue.Key
	}
	given := map[place]bool{}
	for _, s := range all {
		if s.manifest != nil {
			given[place{s.program, s.key}] = true
		}
	}
	seen := map[place]bool{}
	return slices.DeleteFunc(all, func(s target) bool {
		at := place{s.program, s.key}
		again := seen[at] || s.manifest == nil && given[at]
		seen[at] = seen[at] || !again
		return again
	})
}

// fromManifest returns an object in a file as it would be stored.
func (o Options) fromManifest(ctx context.Context, r *run, one *object.Object) (target, bool) {
	namespace := cmp.Or(one.Namespace(), o.Selection.Namespace)
	excluded := target{program: -1}
	for i, resource := range r.kinds() {
		switch {
		case resource.GroupKind() != one.GroupKind():
		case r.includesNamespace(i, namespace):
			return o.complete(ctx, i, resource, one), true
		default:
			excluded = target{program: i, key: objectKey(resource, namespace, one.Name()), err: notHandled(namespace)}
		}
	}
	return excluded, excluded.program >= 0
}

// notHandled is the error of an object in a namespace that the controller is not limited to.
func notHandled(namespace string) error {
	return fmt.Errorf("the controller does not handle objects in namespace %s", namespace)
}

func (o Options) complete(ctx context.Context, i int, resource object.Resource, one *object.Object) target {
	key := objectKey(resource, cmp.Or(one.Namespace(), o.Selection.Namespace), one.Name())
	s := target{program: i, key: key}
	if one, s.err = inNamespace(one, key.Namespace); s.err != nil {
		return s
	}
	completed, note, err := applyManifest(ctx, o.Manager, resource, one)
	if s.manifest, s.err = completed, err; note != "" {
		s.notes = []string{note}
	}
	return s
}

// inNamespace returns an object with its namespace.
func inNamespace(one *object.Object, namespace string) (*object.Object, error) {
	if one.Namespace() == namespace {
		return one, nil
	}
	return one.With(fmt.Appendf(nil, "%q", namespace), "metadata", "namespace")
}

func objectKey(resource object.Resource, namespace, name string) queue.Key {
	if !resource.Namespaced {
		namespace = ""
	}
	return queue.Key{Namespace: namespace, Name: name}
}

// programOf returns the program for a kind, such as "deployments.apps", and the namespace of the
// object if the kind is namespaced.
func programOf(r *run, kind, namespace string) (int, error) {
	var kinds []string
	only := 0
	for i, resource := range r.kinds() {
		name := resource.GroupResource()
		if !r.includesNamespace(i, namespace) {
			continue
		}
		if name == kind {
			return i, nil
		}
		if !slices.Contains(kinds, name) {
			kinds, only = append(kinds, name), i
		}
	}
	if kind == "" && len(kinds) == 1 {
		return only, nil
	}
	if len(kinds) == 0 {
		return 0, notHandled(namespace)
	}
	if kind == "" {
		return 0, fmt.Errorf("the controller manages several kinds; write KIND/NAME, the kind being one of %s", strings.Join(kinds, ", "))
	}
	return 0, fmt.Errorf("the controller does not manage that kind, only %s", strings.Join(kinds, ", "))
}

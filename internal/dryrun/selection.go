package dryrun

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/manager"
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

func (o Options) targets(ctx context.Context, r *run) ([]target, error) {
	var all []target
	for _, name := range o.Selection.Names {
		l, err := r.loopOf(name.Kind, o.Selection.Namespace)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, target{loop: l, key: objectKey(l.kind, o.Selection.Namespace, name.ObjectName)})
	}
	for _, given := range o.Selection.Manifests {
		if s, ours := o.fromManifest(ctx, r, given); ours {
			all = append(all, s)
		}
	}
	if !o.Selection.All {
		return dedupe(all), nil
	}
	for _, l := range r.loops {
		for _, stored := range l.Objects() {
			all = append(all, target{loop: r.loopFor(stored.Ref()), key: controller.KeyOf(stored)})
		}
	}
	return dedupe(all), nil
}

// dedupe removes duplicates. A manifest goes before a stored object.
func dedupe(all []target) []target {
	type place struct {
		loop *loop
		key  queue.Key
	}
	given := map[place]bool{}
	for _, s := range all {
		if s.manifest != nil {
			given[place{s.loop, s.key}] = true
		}
	}
	seen := map[place]bool{}
	return slices.DeleteFunc(all, func(s target) bool {
		at := place{s.loop, s.key}
		again := seen[at] || s.manifest == nil && given[at]
		seen[at] = seen[at] || !again
		return again
	})
}

// fromManifest returns an object in a file as it would be stored.
func (o Options) fromManifest(ctx context.Context, r *run, one *object.Object) (target, bool) {
	namespace := cmp.Or(one.Namespace(), o.Selection.Namespace)
	var excluded target
	for _, l := range r.loops {
		switch {
		case l.kind.GroupKind() != one.GroupKind():
		case l.includes(namespace):
			return o.complete(ctx, l, one), true
		default:
			excluded = target{loop: l, key: objectKey(l.kind, namespace, one.Name()), err: notHandled(namespace)}
		}
	}
	return excluded, excluded.loop != nil
}

// notHandled is the error of an object in a namespace that the controller is not limited to.
func notHandled(namespace string) error {
	return fmt.Errorf("the controller does not handle objects in namespace %s", namespace)
}

func (o Options) complete(ctx context.Context, l *loop, one *object.Object) target {
	key := objectKey(l.kind, cmp.Or(one.Namespace(), o.Selection.Namespace), one.Name())
	s := target{loop: l, key: key}
	if one, s.err = inNamespace(one, key.Namespace); s.err != nil {
		return s
	}
	completed, note, err := applyManifest(ctx, o.Manager, l.kind, one)
	if s.manifest, s.err = completed, err; note != "" {
		s.notes = []string{note}
	}
	return s
}

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

// loopOf returns the loop of a kind, such as "deployments.apps", and the namespace of the object if the kind is
// namespaced.
func (r *run) loopOf(kind, namespace string) (*loop, error) {
	var names []string
	var only *loop
	for _, l := range r.loops {
		name := l.kind.GroupResource()
		switch {
		case !l.includes(namespace):
		case name == kind:
			return l, nil
		case !slices.Contains(names, name):
			names, only = append(names, name), l
		}
	}
	switch {
	case kind == "" && len(names) == 1:
		return only, nil
	case len(names) == 0:
		return nil, notHandled(namespace)
	case kind == "":
		return nil, fmt.Errorf("the controller manages several kinds; write KIND/NAME, the kind being one of %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("the controller does not manage that kind, only %s", strings.Join(names, ", "))
}

// applyManifest returns the object that applying a manifest would store. Labels and annotations
// are merged, the status stays, all other fields are replaced. Where Setpoint may not write,
// or the kind or namespace does not exist yet, it returns the manifest itself with a note.
func applyManifest(ctx context.Context, m *manager.Manager, resource object.Resource, given *object.Object) (o *object.Object, note string,
	err error) {
	stored, err := m.Get(ctx, resource, given.Namespace(), given.Name())
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, "", fmt.Errorf("read %s: %w", given.Ref(), err)
	}
	writer := m.DryRunTools().Writer
	wanted, write := given, writer.Create
	if stored != nil {
		write = writer.Update
		if wanted, err = mergeManifest(stored, given); err != nil {
			return nil, "", fmt.Errorf("merge %s into the stored object: %w", given.Ref(), err)
		}
	}
	tried, err := write(ctx, resource, wanted, "")
	switch {
	case err == nil:
		return tried, "", nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return wanted, "not validated by the API server: " + err.Error(), nil
	}
	return nil, "", fmt.Errorf("dry-run apply %s: %w", given.Ref(), err)
}

// mergeManifest merges a manifest into the stored object.
func mergeManifest(stored, given *object.Object) (*object.Object, error) {
	have, want := object.DecodeOrEmpty(stored.JSON()), object.DecodeOrEmpty(given.JSON())
	metadata, _ := have["metadata"].(map[string]any)
	for _, name := range [...]string{"labels", "annotations"} {
		if added, has := object.FieldAt(want, "metadata", name).(map[string]any); has {
			previous, _ := metadata[name].(map[string]any)
			metadata[name] = object.MergePatch(previous, added)
		}
	}
	want["metadata"] = metadata
	delete(want, "status")
	if status, has := have["status"]; has {
		want["status"] = status
	}
	return object.Encode(want)
}

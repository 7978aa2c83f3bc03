package dryrun

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Selection says which objects of a controller to look at. They add up.
type Selection struct {
	// Names are stored objects.
	Names []ObjectName
	// Manifests are objects of files, stored or not. Those of kinds that a controller
	// does not care for are passed over.
	Manifests []*object.Object
	// All takes all that are stored.
	All bool
	// Namespace is the namespace of those that say none, and where to look unless
	// Everywhere says so.
	Namespace     string
	AllNamespaces bool
}

// listNamespace is where to look; everywhere if empty.
func (c Selection) listNamespace() string {
	if c.AllNamespaces {
		return ""
	}
	return c.Namespace
}

// ObjectName is an object by its name, in the home namespace. Kind is the plural with its group,
// "deployments.apps"; it may be left out where a controller manages one kind only.
type ObjectName struct{ Kind, ObjectName string }

// String is "kind/name", or "name".
func (n ObjectName) String() string {
	if n.Kind == "" {
		return n.ObjectName
	}
	return n.Kind + "/" + n.ObjectName
}

// targets are the objects that are chosen.
func (o Options) targets(ctx context.Context, r *manager.DryRun) ([]target, error) {
	var all []target
	for _, name := range o.Selection.Names {
		i, err := programOf(r, name.Kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, target{program: i, key: objectKey(r.Kinds()[i], o.Selection.Namespace, name.ObjectName)})
	}
	for _, given := range o.Selection.Manifests {
		if s, ours := o.fromManifest(ctx, r, given); ours {
			all = append(all, s)
		}
	}
	if !o.Selection.All {
		return dedupe(all), nil
	}
	for _, parent := range r.Parents() {
		i := slices.IndexFunc(r.Kinds(), func(k object.Resource) bool { return k.GroupKind() == parent.GroupKind() })
		if i < 0 {
			return nil, fmt.Errorf("%s: the controller does not manage that kind", parent.Ref())
		}
		all = append(all, target{program: i, key: queue.Key{Namespace: parent.Namespace(), Name: parent.Name()}})
	}
	return dedupe(all), nil
}

// dedupe leaves out what is chosen a second time. What a file says of an object
// counts before what is stored.
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

// fromManifest is an object of a file as it would be once stored.
func (o Options) fromManifest(ctx context.Context, r *manager.DryRun, one *object.Object) (target, bool) {
	for i, resource := range r.Kinds() {
		if resource.GroupKind() == one.GroupKind() {
			return o.complete(ctx, i, resource, one), true
		}
	}
	return target{}, false
}

func (o Options) complete(ctx context.Context, i int, resource object.Resource, one *object.Object) target {
	key := objectKey(resource, cmp.Or(one.Namespace(), o.Selection.Namespace), one.Name())
	s := target{program: i, key: key}
	if one.Namespace() != key.Namespace {
		if one, s.err = one.With(fmt.Appendf(nil, "%q", key.Namespace), "metadata", "namespace"); s.err != nil {
			return s
		}
	}
	completed, note, err := o.Manager.DryRunApply(ctx, resource, one)
	if s.manifest, s.err = completed, err; note != "" {
		s.notes = []string{note}
	}
	return s
}

func objectKey(resource object.Resource, namespace, name string) queue.Key {
	if !resource.Namespaced {
		namespace = ""
	}
	return queue.Key{Namespace: namespace, Name: name}
}

// programOf finds the program for a kind: "deployments.apps".
func programOf(r *manager.DryRun, kind string) (int, error) {
	var kinds []string
	for i, resource := range r.Kinds() {
		name := strings.TrimSuffix(resource.Plural+"."+resource.Group, ".")
		if name == kind {
			return i, nil
		}
		kinds = append(kinds, name)
	}
	if kind == "" && len(kinds) == 1 {
		return 0, nil
	}
	if kind == "" {
		return 0, fmt.Errorf("the controller manages several kinds; write KIND/NAME, the kind being one of %s", strings.Join(kinds, ", "))
	}
	return 0, fmt.Errorf("the controller does not manage that kind, but %s", strings.Join(kinds, ", "))
}

package preview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Choice says which objects of a controller to look at. They add up.
type Choice struct {
	// Names are stored objects.
	Names []Name
	// Given are objects of files, stored or not. Those of kinds that a controller
	// does not care for are passed over.
	Given []*object.Object
	// All takes all that are stored.
	All bool
	// Home is the namespace of those that say none, and where to look unless
	// Everywhere says so.
	Home       string
	Everywhere bool
}

// namespace is where to look; everywhere if empty.
func (c Choice) namespace() string {
	if c.Everywhere {
		return ""
	}
	return c.Home
}

// Name is an object by its name, in the home namespace. Kind is the plural with its group,
// "deployments.apps"; it may be left out where a controller manages one kind only.
type Name struct{ Kind, Name string }

// String is "kind/name", or "name".
func (n Name) String() string {
	if n.Kind == "" {
		return n.Name
	}
	return n.Kind + "/" + n.Name
}

// subjects are the objects that are chosen.
func (o Options) subjects(ctx context.Context, r *host.Rehearsal) ([]subject, error) {
	var all []subject
	for _, name := range o.Choice.Names {
		i, err := programOf(r, name.Kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, subject{program: i, key: keyIn(r.Kinds()[i], o.Choice.Home, name.Name)})
	}
	for _, given := range o.Choice.Given {
		if s, ours := o.given(ctx, r, given); ours {
			all = append(all, s)
		}
	}
	if !o.Choice.All {
		return once(all), nil
	}
	for _, parent := range r.Parents() {
		i := slices.IndexFunc(r.Kinds(), func(k object.Resource) bool { return k.GroupKind() == parent.GroupKind() })
		if i < 0 {
			return nil, fmt.Errorf("%s: the controller does not manage that kind", parent.Ref())
		}
		all = append(all, subject{program: i, key: queue.Key{Namespace: parent.Namespace(), Name: parent.Name()}})
	}
	return once(all), nil
}

// once leaves out what is chosen a second time. What a file says of an object
// counts before what is stored.
func once(all []subject) []subject {
	type place struct {
		program int
		key     queue.Key
	}
	given := map[place]bool{}
	for _, s := range all {
		if s.given != nil {
			given[place{s.program, s.key}] = true
		}
	}
	seen := map[place]bool{}
	return slices.DeleteFunc(all, func(s subject) bool {
		at := place{s.program, s.key}
		again := seen[at] || s.given == nil && given[at]
		seen[at] = seen[at] || !again
		return again
	})
}

// given is an object of a file as it would be once stored.
func (o Options) given(ctx context.Context, r *host.Rehearsal, one *object.Object) (subject, bool) {
	for i, resource := range r.Kinds() {
		if resource.GroupKind() == one.GroupKind() {
			return o.complete(ctx, i, resource, one), true
		}
	}
	return subject{}, false
}

func (o Options) complete(ctx context.Context, i int, resource object.Resource, one *object.Object) subject {
	key := keyIn(resource, cmp.Or(one.Namespace(), o.Choice.Home), one.Name())
	s := subject{program: i, key: key}
	if one.Namespace() != key.Namespace {
		if one, s.wrong = one.With(fmt.Appendf(nil, "%q", key.Namespace), "metadata", "namespace"); s.wrong != nil {
			return s
		}
	}
	completed, note, err := o.Host.Complete(ctx, resource, one)
	if s.given, s.wrong = completed, err; note != "" {
		s.notes = []string{note}
	}
	return s
}

func keyIn(resource object.Resource, namespace, name string) queue.Key {
	if !resource.Namespaced {
		namespace = ""
	}
	return queue.Key{Namespace: namespace, Name: name}
}

// programOf finds the program for a kind: "deployments.apps".
func programOf(r *host.Rehearsal, kind string) (int, error) {
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

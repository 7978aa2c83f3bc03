package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// readPlanFiles reads controllers and objects from files.
func readPlanFiles(files []string) (controllers, objects []*object.Object, err error) {
	documents, err := manifest.Read(files)
	if err != nil {
		return nil, nil, err
	}
	all, err := parseDocuments(documents)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range all {
		if _, is := compile.KindOf(one); is {
			controllers = append(controllers, one)
			continue
		}
		objects = append(objects, one)
	}
	return controllers, objects, nil
}

// parseDocuments returns the objects of documents. It refuses unknown fields of controllers.
func parseDocuments(documents []manifest.Document) ([]*object.Object, error) {
	var all []*object.Object
	for _, document := range documents {
		text, err := document.Object.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", document, err)
		}
		one, err := object.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", document, err)
		}
		if _, is := compile.KindOf(one); is {
			if err := compile.CheckFields(one); err != nil {
				return nil, fmt.Errorf("%s: %s/%s: %w", document, one.Kind(), one.Name(), err)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// spansNamespaces reports whether an object is in another namespace.
func spansNamespaces(objects []*object.Object, namespace string) bool {
	return slices.ContainsFunc(objects, func(o *object.Object) bool { return o.Namespace() != "" && o.Namespace() != namespace })
}

// controllerOf returns the controller that an argument names, or nil if it names something
// else. A name without a kind is one if it is required.
func (r *permissions) controllerOf(ctx context.Context, h *manager.Manager, arg string, required bool) (*object.Object, error) {
	kind, name, is, err := r.controllerArg(ctx, arg)
	if required && !strings.Contains(arg, "/") {
		return controllerNamed(arg, ", or -f FILE with one", func(kind compile.Kind) (*object.Object,
			error) {
			return h.Get(ctx, kind.Resource, "", arg)
		})
	}
	if err != nil || !is {
		return nil, err
	}
	declared, err := h.Get(ctx, kind.Resource, "", name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", arg, err)
	}
	if declared == nil {
		return nil, fmt.Errorf("%s not found", arg)
	}
	return declared, nil
}

// controllerNamed returns the only controller of a name. Get returns that of one kind, or nil. Otherwise is what else
// the hint of a missing one offers.
func controllerNamed(name, otherwise string, get func(compile.Kind) (*object.Object, error)) (*object.Object, error) {
	var found []*object.Object
	var names []string
	var unread error
	for _, kind := range compile.Kinds() {
		declared, err := get(kind)
		if err != nil {
			unread = cmp.Or(unread, fmt.Errorf("read %s/%s: %w", kind.Name, name, err))
			continue
		}
		if declared != nil {
			found, names = append(found, declared), append(names, kind.Name+"/"+name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, errorWithHint{fmt.Errorf("controller %q is ambiguous", name), "use one of " + strings.Join(names, ", ")}
	case unread != nil:
		return nil, unread
	}
	return nil, errorWithHint{fmt.Errorf("no controller %q", name),
		"use one of the cluster, such as compositecontroller.setpoint.dev/NAME" + otherwise}
}

// named returns the objects that arguments name.
func (r *permissions) named(ctx context.Context, args []string) (all []dryrun.ObjectName, err error) {
	if err := checkNames(args); err != nil {
		return nil, err
	}
	for _, arg := range args {
		word, name, split := strings.Cut(arg, "/")
		if !split {
			all = append(all, dryrun.ObjectName{ObjectName: arg})
			continue
		}
		kind, err := r.kind(ctx, word)
		if err != nil {
			return nil, err
		}
		all = append(all, dryrun.ObjectName{Kind: kind.Resource(), ObjectName: name})
	}
	return all, nil
}

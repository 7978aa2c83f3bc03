package setpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/compile"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// relatedKind is a kind of related objects, with the function of Watches.
type relatedKind struct {
	of *controller
	// mapObject returns the handled objects of a related one.
	mapObject func(*object.Object) ([]types.NamespacedName, error)
}

// Watches watches related objects, which the handled objects do not own: when one is
// created, changed or deleted, Setpoint calls the handlers of OnRelated for the objects that
// the function returns, with their namespace and name. It also retries their failed calls.
//
// Setpoint calls the function for the object before and after a change, so that the former
// and the new handled objects know. The function must be fast; it may use an Index. If it
// panics, the object has no handled objects, and the panic is logged.
//
// The related kind comes from For, with options such as Labels, and need not have handlers
// of its own. Changes while the program is not running call no handler: register it with
// OnResume, too.
func Watches[T, R any](handlers *Handlers[T], related *Handlers[R], handledBy func(o *R) []types.NamespacedName) {
	app := handlers.c.app
	if handledBy == nil {
		app.addProblem("Watches: the function is nil")
	}
	if related.c.app != app {
		app.addProblem("Watches: the related kind is of another app")
	}
	related.c.isRelated = true
	handlers.c.related = append(handlers.c.related, relatedKind{&related.c,
		func(o *object.Object) (names []types.NamespacedName, err error) {
			typed, err := decodeObject[R](o)
			if err != nil {
				return nil, err
			}
			err = failure.Recover("the function of Watches", func() error {
				names = handledBy(typed)
				return nil
			})
			return names, err
		}})
}

// resolve returns the related kind as a program has it.
func (k relatedKind) resolve(ctx context.Context, env *compile.Environment) (loop.Related, error) {
	resource, err := resolveUsed(ctx, *env, k.of.kind)
	return loop.Related{
		Resource: resource, Namespaces: k.of.namespacesFor(resource), Labels: k.of.labels, Fields: k.of.fields, Map: k.mapAndLog,
	}, err
}

func (k relatedKind) mapAndLog(o *object.Object) []types.NamespacedName {
	names, err := k.mapObject(o)
	if err != nil {
		stack, _ := failure.PanicStack(err)
		k.of.app.logger().Error("related object not mapped", "object", o.Ref().String(), "error", failure.OneLine(err), "stack", stack)
	}
	return names
}

func (a *App) relatedKinds() []relatedKind {
	var all []relatedKind
	for _, c := range a.controllers {
		all = append(all, c.related...)
	}
	return all
}

func (a implementation) HandledBy(related json.RawMessage) ([]types.NamespacedName, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	o, err := object.Parse(related)
	if err != nil {
		return nil, err
	}
	var names []types.NamespacedName
	known := false
	for _, k := range a.relatedKinds() {
		if k.of.kind.group() != o.GroupKind() {
			continue
		}
		known = true
		if !k.of.selects(o) {
			continue
		}
		mapped, err := k.mapObject(o)
		if err != nil {
			return nil, err
		}
		names = append(names, mapped...)
	}
	if !known {
		return nil, fmt.Errorf("the app %s has no Watches of %s", a.name, kind{o.APIVersion(), o.Kind()})
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(names), nil
}

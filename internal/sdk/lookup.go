package sdk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// The methods in this file are for tests: packages setpointtest and apptest call them. They return the problems of an app
// that is invalid.

// Handler returns the handler of a name, such as "publish", or "exchangerate/publish" if several kinds have one.
func (a *App) Handler(name string) (*Handler, error) { return findFunction[*Handler](a, name) }

// Hook returns a function of Compose: "sync" or "finalize", or "team/sync" if the app composes several kinds.
func (a *App) Hook(name string) (hook.Hook, error) { return findFunction[hook.Hook](a, name) }

// Reviewer returns the function of Mutate or Validate with a name, like Handler.
func (a *App) Reviewer(name string) (hook.Admitter, error) {
	return findFunction[hook.Admitter](a, name)
}

// findFunction returns the only function of a type and a name.
func findFunction[H any](a *App, name string) (H, error) {
	var none H
	if err := a.check(); err != nil {
		return none, err
	}
	var found []H
	var names []string
	for _, c := range a.controllers {
		for _, f := range c.logic.functions() {
			h, is := f.function.(H)
			if !is {
				continue
			}
			names = append(names, c.shortName()+"/"+f.name)
			if f.name == c.unqualified(name) {
				found = append(found, h)
			}
		}
	}
	switch len(found) {
	case 0:
		return none, fmt.Errorf("the app %s has no function named %q, only %s", a.name, name, cmp.Or(strings.Join(names, ", "), "none"))
	case 1:
		return found[0], nil
	}
	return none, fmt.Errorf("the app %s has several functions named %q; use KIND/NAME", a.name, name)
}

// CRDTexts returns the texts of InstallCRDs.
func (a *App) CRDTexts() [][]byte { return slices.Clone(a.crds.Texts) }

// FillIndexes fills the indexes of an app that is not running with objects, as JSON, until release is called. Concurrent
// calls wait for each other. The options Labels and Namespaces of the kinds apply. It returns an error if the app has no
// index of a kind.
func (a *App) FillIndexes(objects ...json.RawMessage) (release func(), err error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	byKind := map[object.GroupKind][]*object.Object{}
	for _, text := range objects {
		o, err := object.Parse(text)
		if err != nil {
			return nil, err
		}
		of := o.GroupKind()
		if !slices.ContainsFunc(a.controllers, func(c *Controller) bool { return len(c.indexes) > 0 && c.Kind.Group() == of }) {
			return nil, fmt.Errorf("the app %s has no index of %s", a.name, kinds.Kind{APIVersion: o.APIVersion(), Name: o.Kind()})
		}
		byKind[of] = append(byKind[of], o)
	}
	a.indexLock.Lock()
	ends := []func(){a.indexLock.Unlock}
	for _, c := range a.controllers {
		ends = append(ends, c.fillIndexes(byKind[c.Kind.Group()])...)
	}
	return func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}, nil
}

// selects reports whether the options Labels and Namespaces of the kind select an object.
func (c *Controller) selects(o *object.Object) bool {
	selector, err := labels.Parse(c.Labels)
	if err != nil || matching(o, selector) == nil {
		return false // check reports an invalid selector.
	}
	namespace := o.Namespace()
	return namespace == "" || len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, namespace)
}

// fillIndexes fills the indexes with the objects that the kind selects, and returns the
// functions that empty them.
func (c *Controller) fillIndexes(objects []*object.Object) (ends []func()) {
	for _, index := range c.indexes {
		changed, stop := index.startWatch()
		ends = append(ends, stop)
		for _, o := range objects {
			if c.selects(o) {
				changed(cache.Event{New: o})
			}
		}
	}
	return ends
}

// HandledBy returns the objects that the functions of Watches return for an object, as JSON, sorted and once each. It
// returns an error if the app watches no objects of the kind.
func (a *App) HandledBy(related json.RawMessage) ([]types.NamespacedName, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	o, err := object.Parse(related)
	if err != nil {
		return nil, err
	}
	var names []types.NamespacedName
	known := false
	for _, k := range lists.FlatMap(a.controllers, func(c *Controller) []relatedKind { return c.related }) {
		if k.of.Kind.Group() != o.GroupKind() {
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
		return nil, fmt.Errorf("the app %s has no Watches of %s", a.name, kinds.Kind{APIVersion: o.APIVersion(), Name: o.Kind()})
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(names), nil
}

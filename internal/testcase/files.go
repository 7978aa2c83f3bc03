package testcase

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// OfFiles returns a case for each object in the files for which a hook would be called now. The hook gets what the object
// controls there, and what customize selects. It also says for which objects and controllers nothing is called, and why.
func OfFiles(w *workspace.Workspace) (cases []*Case, skipped []string, err error) {
	schemas, err := kinds.ReadCRDs(lists.Map(w.CRDs, (*object.Object).JSON)...)
	if err != nil {
		return nil, nil, err
	}
	for _, of := range w.Controllers {
		samples := w.SamplesOf(of)
		if len(samples) == 0 && len(of.Programs)+len(of.Handlers) > 0 { // Reviews are no calls for objects in files.
			managed, _, _ := of.Resources()
			skipped = append(skipped, fmt.Sprintf("%s: the files have no object of its kind: %s", of, kindList(managed)))
		}
		for _, o := range samples {
			called, why := targetsFor(of, o)
			if len(called) == 0 {
				skipped = append(skipped, fmt.Sprintf("%s: %s: %s", of, o.Ref(), why))
			}
			for _, t := range called {
				t.controller, t.kinds, t.schemas = of, w.Kinds, schemas
				cases = append(cases, &Case{Name: o.Ref().String(), Document: w.DocumentOf(o), target: t, files: w.Objects,
					spec: spec{Request: t.requestFor(o, w.Objects)}})
			}
		}
	}
	return cases, skipped, nil
}

// targetsFor returns the hooks of a controller that are called for an object that it has not seen, or says why none is.
func targetsFor(of *workspace.Controller, o *object.Object) (called []target, why string) {
	for i := range of.Programs {
		p := &of.Programs[i]
		if p.Parent.GroupKind() != o.GroupKind() {
			continue
		}
		name, skipped := p.HookFor(o)
		if skipped == "" {
			return []target{{hook: name, compose: p}}, ""
		}
		why = skipped
	}
	for i := range of.Handlers {
		p := &of.Handlers[i]
		if p.Resource.GroupKind() != o.GroupKind() {
			continue
		}
		skipped := p.Unhandled(o)
		why = cmp.Or(skipped, "only handlers of Create and Delete are rendered")
		for j := range p.Handlers {
			if h := &p.Handlers[j]; skipped == "" && slices.Contains(possibleReasons(h), reasonFor(o)) {
				called = append(called, target{hook: h.Title(), handle: p, handler: h})
			}
		}
	}
	return called, why
}

// reasonFor returns the reason for which handlers are called for an object that they have not seen.
func reasonFor(o *object.Object) hook.Reason {
	if o.Deleting() {
		return hook.ReasonDelete
	}
	return hook.ReasonCreate
}

// requestFor returns the request about an object, with what it controls among the others.
func (t *target) requestFor(o *object.Object, all []*object.Object) request {
	if t.handle != nil {
		return request{Object: o.JSON(), Owned: controlled(o, all, t.handle.Owns), Reason: string(reasonFor(o))}
	}
	children := controlled(o, all, lists.Map(t.compose.Children, func(r plan.Rule) object.Resource { return r.Resource }))
	if t.isDecorator() {
		return request{Object: o.JSON(), Attachments: children}
	}
	return request{Parent: o.JSON(), Children: children}
}

// controlled returns the objects of some kinds that an object controls by their owner references. A file may have no UIDs.
func controlled(by *object.Object, all []*object.Object, of []object.Resource) objects {
	return rawObjects(lists.Filter(all, func(o *object.Object) bool {
		owner, owned := o.Controller()
		return owned && owner.Kind == by.Kind() && owner.Name == by.Name() &&
			object.GroupOf(owner.APIVersion) == object.GroupOf(by.APIVersion()) &&
			(by.Namespace() == "" || by.Namespace() == o.Namespace()) && (by.UID() == "" || by.UID() == owner.UID) &&
			slices.ContainsFunc(of, func(r object.Resource) bool { return r.GroupKind() == o.GroupKind() })
	}))
}

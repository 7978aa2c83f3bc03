package testcase

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// OfFiles returns a case for each object in the files for which a hook would be called now. The hook gets what the object
// controls there, and what customize selects. It also says for which objects and controllers nothing is called, and why.
func OfFiles(w *workspace.Workspace) (cases []*Case, skipped []string, err error) {
	f := &fromFiles{workspace: w}
	if f.schemas, err = kinds.ReadCRDs(lists.Map(w.CRDs, (*object.Object).JSON)...); err != nil {
		return nil, nil, err
	}
	for _, c := range w.Controllers {
		f.addController(c)
	}
	f.noteForeign()
	return f.cases, f.skipped, nil
}

// fromFiles makes cases of the objects in files.
type fromFiles struct {
	workspace *workspace.Workspace
	schemas   *kinds.CRDs
	cases     []*Case
	skipped   []string
}

func (f *fromFiles) skip(format string, args ...any) {
	f.skipped = append(f.skipped, fmt.Sprintf(format, args...))
}

func (f *fromFiles) addController(of *workspace.Controller) {
	managed, _, _ := of.Resources()
	samples := f.workspace.SamplesOf(of)
	switch {
	case len(of.Programs)+len(of.Handlers) == 0:
		f.skip("%s: reviews are not rendered", of)
	case len(samples) == 0:
		f.skip("%s: the files have no object of its kind: %s", of, kindList(managed))
	default:
		for _, o := range samples {
			before := len(f.cases)
			if why := cmp.Or(f.addParent(of, o), f.addHandled(of, o)); len(f.cases) == before {
				f.skip("%s: %s: %s", of, o.Ref(), why)
			}
		}
	}
}

// addParent adds the case of a parent, or says why there is none; empty for an object that is no parent.
func (f *fromFiles) addParent(of *workspace.Controller, o *object.Object) (skipped string) {
	for i := range of.Programs {
		t := target{controller: of, compose: &of.Programs[i]}
		if t.compose.Parent.GroupKind() != o.GroupKind() {
			continue
		}
		if t.hook, skipped = t.compose.HookFor(o); skipped != "" {
			continue
		}
		children := f.controlled(o, lists.Map(t.compose.Children, func(r plan.Rule) object.Resource { return r.Resource }))
		if t.isDecorator() {
			f.add(o, t, request{Object: o.JSON(), Attachments: children})
		} else {
			f.add(o, t, request{Parent: o.JSON(), Children: children})
		}
		return ""
	}
	return skipped
}

// addHandled adds the cases of the handlers that are called for a new object, for one that is being deleted, or by a timer.
func (f *fromFiles) addHandled(of *workspace.Controller, o *object.Object) (skipped string) {
	for i := range of.Handlers {
		p := &of.Handlers[i]
		if !p.Handles(o) {
			skipped = cmp.Or(skipped, "not selected by the controller")
			continue
		}
		skipped = "not handled when it is created: only handlers of Create, Delete and timers are rendered"
		for j := range p.Handlers {
			h := &p.Handlers[j]
			if reason := reasonFor(h, o); reason != "" {
				f.add(o, target{controller: of, hook: h.Title(), handle: p, handler: h},
					request{Object: o.JSON(), Owned: f.controlled(o, p.Owns), Reason: string(reason)})
			}
		}
	}
	return skipped
}

// reasonFor returns the reason for which a handler would be called for an object that it has not seen; empty for none.
func reasonFor(h *trigger.Handler, o *object.Object) hook.Reason {
	all := []hook.Reason{hook.ReasonCreate, hook.ReasonTimer}
	if o.Deleting() {
		all = []hook.Reason{hook.ReasonDelete}
	}
	for _, reason := range all {
		if slices.Contains(possibleReasons(h), reason) {
			return reason
		}
	}
	return ""
}

func (f *fromFiles) add(o *object.Object, t target, r request) {
	t.kinds, t.schemas = f.workspace.Kinds, f.schemas
	f.cases = append(f.cases, &Case{Name: o.Ref().String(), Document: f.workspace.DocumentOf(o), target: t,
		spec: spec{Request: r}, files: f.workspace.Objects})
}

// controlled returns the objects of some kinds that an object controls by their owner references. A file may have no UIDs.
func (f *fromFiles) controlled(by *object.Object, of []object.Resource) objects {
	return rawObjects(lists.Filter(f.workspace.Objects, func(o *object.Object) bool {
		owner, owned := o.Controller()
		return owned && hasKind(of, o) && owner.Kind == by.Kind() && owner.Name == by.Name() &&
			object.GroupOf(owner.APIVersion) == object.GroupOf(by.APIVersion()) &&
			(by.Namespace() == "" || by.Namespace() == o.Namespace()) && (by.UID() == "" || by.UID() == owner.UID)
	}))
}

// noteForeign notes the custom resources that no controller of the files has to do with.
func (f *fromFiles) noteForeign() {
	var known []object.Resource
	for _, c := range f.workspace.Controllers {
		managed, written, read := c.Resources()
		known = slices.Concat(known, managed, written, read)
	}
	for _, o := range f.workspace.Objects {
		if !object.IsBuiltInGroup(object.GroupOf(o.APIVersion())) && !hasKind(known, o) {
			f.skip("%s: no controller of the files manages it", o.Ref())
		}
	}
}

func hasKind(all []object.Resource, o *object.Object) bool {
	return slices.ContainsFunc(all, func(r object.Resource) bool { return r.GroupKind() == o.GroupKind() })
}

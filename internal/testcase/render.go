package testcase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// Heading says what is called, such as "Set default/a: CompositeController/sets sync".
func (c *Case) Heading() string {
	return fmt.Sprintf("%s: %s %s", c.Name, c.target.controller, c.target.hook)
}

// Render calls the hook of a case of an object in the files. It returns the object as the response makes it, followed by the
// children, attachments or applied objects, and the other fields of the response. An error says where the object is.
func (c *Case) Render(ctx context.Context) (documents []map[string]any, others map[string]any, err error) {
	got, err := c.accepted(ctx)
	if err != nil {
		return nil, nil, c.located(err)
	}
	var problems []error
	if got[fieldCalled] == nil {
		documents = append(documents, c.changed(got))
		whole, err := object.Encode(documents[0])
		if err == nil {
			err = c.target.schemas.Check(whole)
		}
		problems = append(problems, c.refused("", err))
	}
	others = map[string]any{}
	own := []string{"status", "labels", "annotations", "patch"} // They change the object that the request is about.
	for field, value := range got {
		switch list, _ := value.([]any); {
		case isObjects(field):
			for i, each := range list {
				child, _ := each.(map[string]any)
				placed, err := c.placed(child, fmt.Sprintf("%s[%d]", field, i))
				documents, problems = append(documents, placed), append(problems, err)
			}
		case field == fieldCalled, !slices.Contains(own, field) && orNil(value) != nil:
			others[field] = value
		}
	}
	return documents, others, errors.Join(problems...)
}

// Follow gives a case the object as the response to the case before made it, and reports true, if both are of one object
// and handlers: they are called one after another.
func Follow(c, before *Case, changed map[string]any) (bool, error) {
	if c.target.handle == nil || c.target.handle != before.target.handle || c.Name != before.Name {
		return false, nil
	}
	text, err := json.Marshal(changed)
	c.spec.Request.Object = text
	c.Document.Object = &unstructured.Unstructured{Object: changed}
	return true, err
}

// located adds where the object is, and the line of inline code that has failed.
func (c *Case) located(err error) error {
	at := c.Document
	if _, ofHook := errors.AsType[*responseError](err); !ofHook {
		at = at.Locate(err)
	} else if strings.Contains(err.Error(), ".inline.source:") {
		code := c.target.controller.Document.Locate(err)
		err = fmt.Errorf("%w (%s:%d)", err, code.File, code.Line)
	}
	return fmt.Errorf("%s:%d: %s: %w", at.File, at.Line, c.Heading(), err)
}

// accepted returns the response to an object that the API server would store, unless Setpoint would reject it.
func (c *Case) accepted(ctx context.Context) (fields, error) {
	o, err := c.about(c.target.parentField())
	if err == nil {
		err = c.target.schemas.Check(o)
	}
	if err != nil {
		return nil, err
	}
	got, err := c.call(ctx)
	switch {
	case err != nil:
		return nil, err
	case got[fieldError] != nil:
		return nil, &responseError{fmt.Errorf("%v", got[fieldError])}
	case c.target.compose != nil:
		if _, err := c.target.plan(o, nil, got); err != nil {
			return nil, &responseError{err}
		}
	}
	return got, nil
}

// changed returns the object as the response makes it. The status of a composite replaces that of a custom resource.
func (c *Case) changed(got fields) map[string]any {
	o := maps.Clone(c.Document.Object.Object)
	if p := c.target.compose; p != nil && !c.target.isDecorator() && p.Parent.Custom {
		delete(o, "status")
	}
	patch, _ := got["patch"].(map[string]any)
	metadata := map[string]any{}
	all := map[string]any{"metadata": metadata}
	for field, within := range map[string]map[string]any{"labels": metadata, "annotations": metadata, "status": all} {
		if got[field] != nil {
			within[field] = got[field]
		}
	}
	return object.MergePatch(object.MergePatch(o, patch), all)
}

// placed returns an object of a field of a response in its namespace, and why the API server would not store it. What a handler
// applies may be some fields of an object that exists.
func (c *Case) placed(o map[string]any, field string) (map[string]any, error) {
	if inner, wrapped := o["object"].(map[string]any); wrapped {
		o = inner
	}
	resource, err := c.target.kindOf(o, object.Resource{})
	metadata, is := o["metadata"].(map[string]any)
	if namespace := c.Document.Object.GetNamespace(); is && err == nil && resource.Namespaced && namespace != "" {
		setDefault(metadata, "namespace", namespace)
	}
	if c.target.compose == nil {
		return o, nil
	}
	var whole *object.Object
	if err == nil {
		whole, err = object.Encode(o)
	}
	if err == nil {
		err = c.target.schemas.CheckNew(resource, whole)
	}
	return o, c.refused(field+": ", err)
}

// refused says where the API server would refuse what a response has; nil if it would not.
func (c *Case) refused(field string, err error) error {
	if err == nil {
		return nil
	}
	return c.located(&responseError{fmt.Errorf("%s%s", field, strings.ReplaceAll(err.Error(), "\n", "; "))})
}

// Draft returns a case of the first object in the files whose hook responds, with that response as the expected one, as a
// document of YAML; "" if there is none.
func Draft(ctx context.Context, w *workspace.Workspace) (string, error) {
	cases, _, err := OfFiles(w)
	for _, c := range cases {
		if got, failed := c.accepted(ctx); failed == nil && got[fieldCalled] == nil {
			return c.draft(got)
		}
	}
	return "", err
}

// draft returns the case as a document of YAML.
func (c *Case) draft(got fields) (string, error) {
	encoded, err := json.Marshal(c.spec.Request)
	if err != nil {
		return "", err
	}
	request, err := object.Decode(encoded)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(request, func(_ string, value any) bool { return orNil(value) == nil })
	delete(got, fieldLogicVersion)
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": workspace.TestVersion, "kind": workspace.CaseKind, "metadata": map[string]any{"name": c.Document.Object.GetName()},
		"controller": c.target.controller.String(), "hook": c.target.hook, "request": request, "expect": got,
	})
	return string(text), err
}

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

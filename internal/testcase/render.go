package testcase

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Rendered is what a hook has returned for an object.
type Rendered struct {
	// Documents are the object as the response makes it, and then the children, attachments or applied objects.
	Documents []map[string]any
	// Others are the other fields of the response, such as events. Empty ones are left out.
	Others map[string]any
}

// Heading says what is called, such as "Set default/a: CompositeController/sets sync".
func (c *Case) Heading() string {
	return fmt.Sprintf("%s: %s %s", c.Name, c.target.controller, c.target.hook)
}

// Render calls the hook of a case of an object in the files. An error says where the object is.
func (c *Case) Render(ctx context.Context) (*Rendered, error) {
	got, err := c.accepted(ctx)
	if err != nil {
		return nil, c.located(err)
	}
	r := &Rendered{Others: maps.Clone(got)}
	maps.DeleteFunc(r.Others, func(_ string, value any) bool { return orNil(value) == nil })
	if got[fieldCalled] == false {
		r.Others[fieldCalled] = false
		return r, nil
	}
	o, err := object.Decode(c.spec.Request.about())
	if err != nil {
		return nil, err
	}
	r.Documents = append(r.Documents, c.changed(o, r))
	for _, field := range []string{"children", "attachments", "apply"} {
		list, _ := r.take(field).([]any)
		for _, each := range list {
			child, _ := each.(map[string]any)
			r.Documents = append(r.Documents, c.placed(ctx, child))
		}
	}
	return r, nil
}

// located adds where the object is, and the line of inline code that has failed.
func (c *Case) located(err error) error {
	at := c.Document.Locate(err)
	if _, ofHook := errorOf(err); ofHook {
		at = c.Document
		if strings.Contains(err.Error(), ".inline.source:") {
			code := c.target.controller.Document.Locate(err)
			err = fmt.Errorf("%w (%s:%d)", err, code.File, code.Line)
		}
	}
	return fmt.Errorf("%s:%d: %s: %w", at.File, at.Line, c.Heading(), err)
}

// accepted returns the response to an object that the API server would store, unless Setpoint would reject it.
func (c *Case) accepted(ctx context.Context) (fields, error) {
	o, err := c.about(c.aboutField())
	if err != nil {
		return nil, err
	}
	if err := c.target.schemas.Check(o); err != nil {
		return nil, err
	}
	got, err := c.call(ctx)
	if err == nil && c.target.compose != nil {
		_, err = c.target.plan(o, nil, got)
	}
	if got[fieldError] != nil {
		err = fmt.Errorf("%v", got[fieldError])
	}
	return got, err
}

// about returns the object that a request is about.
func (r *request) about() []byte {
	if r.Parent != nil {
		return r.Parent
	}
	return r.Object
}

// take removes a field from the others.
func (r *Rendered) take(field string) any {
	value := r.Others[field]
	delete(r.Others, field)
	return value
}

// changed returns an object as the response makes it. The status of a composite replaces that of a custom resource.
func (c *Case) changed(o map[string]any, r *Rendered) map[string]any {
	if p := c.target.compose; p != nil && !c.target.isDecorator() && p.Parent.Custom {
		delete(o, "status")
	}
	patch, _ := r.take("patch").(map[string]any)
	metadata := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if value := r.take(field); value != nil {
			metadata[field] = value
		}
	}
	all := map[string]any{"metadata": metadata}
	if status := r.take("status"); status != nil {
		all["status"] = status
	}
	return object.MergePatch(object.MergePatch(o, patch), all)
}

// placed returns an object of a response in its namespace.
func (c *Case) placed(ctx context.Context, o map[string]any) map[string]any {
	if inner, wrapped := o["object"].(map[string]any); wrapped {
		o = inner
	}
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	resource, err := c.target.kinds.ResolveKind(ctx, apiVersion, kind)
	metadata, is := o["metadata"].(map[string]any)
	if namespace := c.Document.Object.GetNamespace(); is && err == nil && resource.Namespaced && namespace != "" {
		setDefault(metadata, "namespace", namespace)
	}
	return o
}

package testcase

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// defaultName is the name of the object of a request that gives none.
const defaultName = "example"

// call calls the hook of the case. The fields of the response have the names of the reference.
func (c *Case) call(ctx context.Context) (fields, error) {
	switch {
	case c.target.handle != nil:
		return c.callHandler(ctx)
	case c.target.webhook != nil:
		return c.callWebhook(ctx)
	case c.target.hook == hookCustomize:
		return c.callCustomize(ctx)
	}
	return c.callSync(ctx)
}

// about returns the object that the request is about.
func (c *Case) about(field string) (*object.Object, error) {
	raw := c.spec.Request.Parent
	if field == "object" {
		raw = c.spec.Request.Object
	}
	if raw == nil {
		return nil, fmt.Errorf("request.%s: required", field)
	}
	return c.target.complete("request."+field, raw, defaults{resource: c.target.resource(), name: defaultName, namespace: "default"})
}

// parentField is the field of the object that requests of the target are about.
func (t *target) parentField() string {
	if t.compose == nil || t.isDecorator() {
		return "object"
	}
	return "parent"
}

// childrenField is the field of children in requests and responses of the target.
func (t *target) childrenField() string {
	if t.isDecorator() {
		return "attachments"
	}
	return "children"
}

// desiredField is the field that holds all desired children; empty if there is none.
func (t *target) desiredField() string {
	if t.compose == nil || t.hook == hookCustomize {
		return ""
	}
	return t.childrenField()
}

// controllerObject is the controller in requests.
func (c *Case) controllerObject(compiled json.RawMessage) json.RawMessage {
	if c.spec.Request.Controller != nil {
		return c.spec.Request.Controller
	}
	return compiled
}

// all completes the objects of a list of the request.
func (c *Case) all(field string, raw objects, by defaults) ([]*object.Object, error) {
	var all []*object.Object
	for i, each := range raw {
		o, err := c.target.complete(fmt.Sprintf("request.%s[%d]", field, i), each, by)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func (c *Case) callSync(ctx context.Context) (fields, error) {
	parent, err := c.about(c.target.parentField())
	if err != nil {
		return nil, err
	}
	p := c.target.compose
	request := &hook.Request{
		Controller: c.controllerObject(p.Object), Parent: parent.JSON(), ParentNamespace: parent.Namespace(),
		Finalizing: c.target.hook == hookFinalize,
	}
	if request.Children, err = c.children(parent); err != nil {
		return nil, err
	}
	if request.Related, err = c.related(ctx, parent); err != nil {
		return nil, err
	}
	h := p.Sync
	if request.Finalizing {
		h = p.Finalize
	}
	response, err := h.Call(ctx, request)
	if err != nil {
		return nil, &responseError{err}
	}
	got, err := c.target.responseFields(record.Response{Sync: response}, parent.Namespace())
	if _, expected := c.spec.Expect[fieldWrites]; err == nil && expected {
		got[fieldWrites], err = c.writes(parent, request.Children, got)
	}
	return got, err
}

// children returns the children or attachments of the request, with a group for each kind.
func (c *Case) children(parent *object.Object) ([]hook.Group, error) {
	kinds := lists.Map(c.target.compose.Children, func(r plan.Rule) object.Resource { return r.Resource })
	raw := c.spec.Request.Children
	if c.target.isDecorator() {
		raw = c.spec.Request.Attachments
	}
	return c.groups(c.target.childrenField(), raw, kinds, parent)
}

// groups returns the objects of a list of the request by their kinds. What is of the only kind may leave it out.
func (c *Case) groups(field string, raw objects, kinds []object.Resource, owner *object.Object) ([]hook.Group, error) {
	by := defaults{namespace: cmp.Or(owner.Namespace(), "default"), owner: owner}
	if len(kinds) == 1 {
		by.resource = kinds[0]
	}
	all, err := c.all(field, raw, by)
	if err != nil {
		return nil, err
	}
	return group(field, kinds, all)
}

// related returns the related objects of the request. Hooks get a group for each kind that customize selects.
func (c *Case) related(ctx context.Context, parent *object.Object) ([]hook.Group, error) {
	p, raw := c.target.compose, c.spec.Request.Related
	if p.Customize == nil {
		if len(raw) > 0 {
			return nil, fmt.Errorf("request.related: %s has no customize hook, so its hooks get no related objects", c.target.controller)
		}
		return nil, nil
	}
	selected, err := p.Customize.Customize(ctx, &hook.CustomizeRequest{Controller: c.controllerObject(p.Object), Parent: parent.JSON()})
	if err != nil {
		return nil, &responseError{fmt.Errorf("customize: %w", err)}
	}
	if c.files != nil {
		registry := related.New(related.Options{Scope: p.Scope, Resolve: c.target.kinds.Resolve})
		some, err := registry.Select(ctx, queue.Key{Namespace: parent.Namespace(), Name: parent.Name()}, selected.Related, c.files)
		if err != nil {
			return nil, &responseError{fmt.Errorf("customize: %w", err)}
		}
		raw = rawObjects(some)
		c.spec.Request.Related = raw
	}
	var kinds []object.Resource
	for i, rule := range selected.Related {
		resource, err := c.target.kinds.Resolve(ctx, rule.APIVersion, rule.Resource)
		if err != nil {
			return nil, &responseError{fmt.Errorf("customize: relatedResources[%d]: %w", i, err)}
		}
		kinds = lists.Union(kinds, []object.Resource{resource})
	}
	all, err := c.all("related", raw, defaults{namespace: cmp.Or(parent.Namespace(), "default")})
	if err != nil {
		return nil, err
	}
	return group("related", kinds, all)
}

func (c *Case) callCustomize(ctx context.Context) (fields, error) {
	field := "parent"
	if c.spec.Request.Object != nil {
		field = "object"
	}
	parent, err := c.about(field)
	if err != nil {
		return nil, err
	}
	p := c.target.compose
	response, err := p.Customize.Customize(ctx, &hook.CustomizeRequest{Controller: c.controllerObject(p.Object), Parent: parent.JSON()})
	if err != nil {
		return nil, &responseError{err}
	}
	return c.target.responseFields(record.Response{Customize: response}, parent.Namespace())
}

// responseError is an error of the hook, which a case may expect.
type responseError struct{ error }

func (e *responseError) Unwrap() error { return e.error }

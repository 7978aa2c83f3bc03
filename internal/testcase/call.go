package testcase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
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
	resource, _ := c.target.resource()
	return c.target.complete("request."+field, raw, defaults{resource: resource, name: defaultName, namespace: "default"})
}

// parentField is the field of the parent in requests of the target.
func (t *target) parentField() string {
	if t.isDecorator() {
		return "object"
	}
	return "parent"
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
	p, r := c.target.compose, &c.spec.Request
	parent, err := c.about(c.target.parentField())
	if err != nil {
		return nil, err
	}
	request := &hook.Request{
		Controller: c.controllerObject(p.Object), Parent: parent.JSON(), ParentNamespace: parent.Namespace(), Finalizing: c.target.hook == hookFinalize,
	}
	kinds := make([]object.Resource, len(p.Children))
	for i, rule := range p.Children {
		kinds[i] = rule.Resource
	}
	by := defaults{namespace: cmp.Or(parent.Namespace(), "default"), owner: parent}
	if len(kinds) == 1 {
		by.resource = kinds[0]
	}
	name, raw := "children", r.Children
	if c.target.isDecorator() {
		name, raw = "attachments", r.Attachments
	}
	children, err := c.all(name, raw, by)
	if err == nil {
		request.Children, err = group(kinds, children)
	}
	if err != nil {
		return nil, err
	}
	related, err := c.all("related", r.Related, defaults{namespace: cmp.Or(parent.Namespace(), "default")})
	if err == nil {
		request.Related, err = group(kindsOf(related), related)
	}
	if err != nil {
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
	return syncResponse(response, name, parent.Namespace())
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
	return fieldsOf(response)
}

func (c *Case) callHandler(ctx context.Context) (fields, error) {
	p, h, r := c.target.handle, c.target.handler, &c.spec.Request
	o, err := c.about("object")
	if err != nil {
		return nil, err
	}
	request := &hook.HandlerRequest{
		Controller: c.controllerObject(p.Object), Handler: h.Name, Reason: hook.Reason(r.Reason), Object: o.JSON(), Namespace: o.Namespace(), Name: o.Name(),
		Attempt: r.Attempt, Progress: r.Progress, Deleted: r.Deleted, Event: hook.EventType(r.Event), Daemon: hook.DaemonCall(r.Daemon), DryRun: r.DryRun,
	}
	if request.Reason, err = c.reason(); err != nil {
		return nil, err
	}
	if r.FirstAttempt != "" {
		if request.FirstAttempt, err = time.Parse(time.RFC3339, r.FirstAttempt); err != nil {
			return nil, fmt.Errorf("request.firstAttempt: %w", err)
		}
	}
	var previous *object.Object
	if r.PreviousState != nil {
		previous, err = c.target.complete("request.previousState", r.PreviousState, defaults{resource: p.Resource, name: o.Name(), namespace: o.Namespace()})
		if err != nil {
			return nil, err
		}
		request.PreviousState, request.Changes = previous.JSON(), h.Changes(previous, o)
	}
	by := defaults{namespace: cmp.Or(o.Namespace(), "default"), owner: o}
	if len(p.Owns) == 1 {
		by.resource = p.Owns[0]
	}
	owned, err := c.all("owned", r.Owned, by)
	if err == nil {
		request.Owned, err = group(p.Owns, owned)
	}
	if err != nil {
		return nil, err
	}
	if called, err := isCalled(h, request.Reason, previous, o); !called || err != nil {
		return fields{fieldCalled: false}, err
	}
	response, err := h.Do.Handle(ctx, request)
	if err != nil {
		return nil, &responseError{err}
	}
	return handlerResponse(response, o.Namespace())
}

// isCalled reports whether the condition of a handler is true.
func isCalled(h *handle.Handler, reason hook.Reason, previous, o *object.Object) (bool, error) {
	if h.When != nil && !h.When(previous, o) {
		return false, nil
	}
	if h.Expression == nil {
		return true, nil
	}
	matches, err := h.Expression(reason, previous, o)
	if err != nil {
		return false, &responseError{err}
	}
	return matches, nil
}

// reason returns the reason of a call: that of the request, or the only one of the handler.
func (c *Case) reason() (hook.Reason, error) {
	h := c.target.handler
	given := hook.Reason(c.spec.Request.Reason)
	switch {
	case given != "":
		return given, nil
	case h.Daemon != nil:
		return hook.ReasonDaemon, nil
	case len(h.On) == 1:
		return h.On[0], nil
	case len(h.On) == 0:
		return hook.ReasonTimer, nil
	case c.spec.Request.PreviousState != nil:
		return hook.ReasonUpdate, nil
	}
	return "", fmt.Errorf("request.reason: required, one of %v", h.On)
}

func (c *Case) callWebhook(ctx context.Context) (fields, error) {
	r, h := &c.spec.Request, c.target.webhook
	request := &hook.ReviewRequest{
		Controller: c.controllerObject(c.target.controller.Admission.Object), Webhook: h.Name, UID: cmp.Or(r.UID, "0"), Operation: hook.Operation(r.Operation),
		Resource: r.Resource, Subresource: r.Subresource, DryRun: r.DryRun, User: hook.User{Name: "kubernetes-admin", Groups: []string{"system:authenticated"}},
	}
	if r.User != nil {
		if err := json.Unmarshal(r.User, &request.User); err != nil {
			return nil, fmt.Errorf("request.user: %w", err)
		}
	}
	for _, one := range []struct {
		field string
		raw   json.RawMessage
		into  *json.RawMessage
	}{{"object", r.Object, &request.Object}, {"oldObject", r.OldObject, &request.OldObject}} {
		if one.raw == nil {
			continue
		}
		o, err := c.target.complete("request."+one.field, one.raw, defaults{resource: c.reviewed(), name: defaultName, namespace: "default"})
		if err != nil {
			return nil, err
		}
		*one.into = o.JSON()
		request.APIVersion, request.Kind, request.Namespace, request.Name = o.APIVersion(), o.Kind(), o.Namespace(), o.Name()
	}
	if request.Kind == "" {
		return nil, errors.New("request.object: required, or oldObject for a deletion")
	}
	request.Operation = cmp.Or(request.Operation, operationOf(request))
	if resource, err := c.target.kinds.ResolveKind(ctx, request.APIVersion, request.Kind); err == nil {
		request.Resource = cmp.Or(request.Resource, resource.Plural)
	}
	response, err := h.Admitter.Admit(ctx, request)
	if err != nil {
		return nil, &responseError{err}
	}
	return reviewResponse(response)
}

// operationOf returns the operation that the objects of a request mean.
func operationOf(r *hook.ReviewRequest) hook.Operation {
	switch {
	case r.OldObject == nil:
		return hook.OperationCreate
	case r.Object == nil:
		return hook.OperationDelete
	}
	return hook.OperationUpdate
}

// reviewed returns the kind of a webhook that reviews one; else the zero value.
func (c *Case) reviewed() object.Resource {
	h := c.target.webhook
	if len(h.Rules) != 1 || len(h.Rules[0].Resources) != 1 {
		return object.Resource{}
	}
	rule := h.Rules[0]
	apiVersion := object.Resource{Group: rule.Group, Version: rule.Version}.APIVersion()
	resource, err := c.target.kinds.Resolve(context.Background(), apiVersion, rule.Resources[0])
	if err != nil || resource.Kind == resource.Plural {
		return object.Resource{}
	}
	return resource
}

// responseError is an error of the hook, which a case may expect.
type responseError struct{ error }

func (e *responseError) Unwrap() error { return e.error }

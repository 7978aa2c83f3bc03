package testcase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

func (c *Case) controllerObject(compiled json.RawMessage) json.RawMessage {
	if c.spec.Request.Controller != nil {
		return c.spec.Request.Controller
	}
	return compiled
}

// completeAll completes the objects of a list of the request.
func (c *Case) completeAll(field string, raw objects, by defaults) ([]*object.Object, error) {
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
	children, groups, err := c.children(parent)
	if err != nil {
		return nil, err
	}
	request.Children = groups
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
		got[fieldWrites], err = c.writes(parent, children, got)
	}
	return got, err
}

// children returns the children or attachments of the request, and a group for each kind.
func (c *Case) children(parent *object.Object) ([]*object.Object, []hook.Group, error) {
	kinds := lists.Map(c.target.compose.Children, func(r plan.Rule) object.Resource { return r.Resource })
	raw := c.spec.Request.Children
	if c.target.isDecorator() {
		raw = c.spec.Request.Attachments
	}
	return c.groupsOf(c.target.childrenField(), raw, kinds, parent)
}

// groupsOf returns the objects of a list of the request, also by their kinds. What is of the only kind may leave it out.
func (c *Case) groupsOf(field string, raw objects, kinds []object.Resource, owner *object.Object) ([]*object.Object, []hook.Group, error) {
	by := defaults{namespace: cmp.Or(owner.Namespace(), "default"), owner: owner}
	if len(kinds) == 1 {
		by.resource = kinds[0]
	}
	all, err := c.completeAll(field, raw, by)
	if err != nil {
		return nil, nil, err
	}
	groups, err := grouped(field, kinds, all)
	return all, groups, err
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
	selected, err := c.customize(ctx, parent)
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
	all, err := c.completeAll("related", raw, defaults{namespace: cmp.Or(parent.Namespace(), "default")})
	if err != nil {
		return nil, err
	}
	return grouped("related", kinds, all)
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
	response, err := c.customize(ctx, parent)
	if err != nil {
		return nil, &responseError{err}
	}
	return c.target.responseFields(record.Response{Customize: response}, parent.Namespace())
}

func (c *Case) customize(ctx context.Context, parent *object.Object) (*hook.CustomizeResponse, error) {
	p := c.target.compose
	return p.Customize.Customize(ctx, &hook.CustomizeRequest{Controller: c.controllerObject(p.Object), Parent: parent.JSON()})
}

func (c *Case) callHandler(ctx context.Context) (fields, error) {
	p, h, r := c.target.handle, c.target.handler, &c.spec.Request
	o, err := c.about("object")
	if err != nil {
		return nil, err
	}
	request := &hook.HandlerRequest{
		Controller: c.controllerObject(p.Object), Handler: h.Name, Object: o.JSON(), Namespace: o.Namespace(), Name: o.Name(),
		Attempt: r.Attempt, Progress: r.Progress, Deleted: r.Deleted, Event: hook.EventType(r.Event), DryRun: r.DryRun,
	}
	if request.Daemon, err = c.daemonCall(); err != nil {
		return nil, err
	}
	if request.Reason, err = c.reasonOfCall(); err != nil {
		return nil, err
	}
	if r.FirstAttempt != "" {
		if request.FirstAttempt, err = time.Parse(time.RFC3339, r.FirstAttempt); err != nil {
			return nil, fmt.Errorf("request.firstAttempt: %w", err)
		}
	}
	var previous *object.Object
	if r.PreviousState != nil {
		previous, err = c.target.complete("request.previousState", r.PreviousState,
			defaults{resource: p.Resource, name: o.Name(), namespace: o.Namespace()})
		if err != nil {
			return nil, err
		}
		request.PreviousState, request.Changes = previous.JSON(), h.Changes(previous, o)
	}
	if _, request.Owned, err = c.groupsOf("owned", r.Owned, p.Owns, o); err != nil {
		return nil, err
	}
	switch called, err := h.Holds(request.Reason, previous, o); {
	case err != nil:
		return nil, &responseError{err}
	case !called:
		return fields{fieldCalled: false}, nil
	}
	response, err := h.Do.Handle(ctx, request)
	if err == nil && request.Daemon == hook.DaemonStart {
		stop := *request // A case is one call: nothing runs on after it.
		stop.Daemon = hook.DaemonStop
		_, err = h.Do.Handle(ctx, &stop)
	}
	if err != nil {
		return nil, &responseError{err}
	}
	return c.target.responseFields(record.Response{Handler: response}, o.Namespace())
}

// daemonCall returns what a call of a daemon is for; empty for other handlers.
func (c *Case) daemonCall() (hook.DaemonCall, error) {
	given := hook.DaemonCall(c.spec.Request.Daemon)
	calls := []hook.DaemonCall{hook.DaemonStart, hook.DaemonUpdate, hook.DaemonCollect, hook.DaemonStop}
	switch {
	case c.target.handler.Daemon == nil && given != "":
		return "", fmt.Errorf("request.daemon: the handler %s is no daemon", c.target.hook)
	case c.target.handler.Daemon == nil:
		return "", nil
	case given == "":
		return hook.DaemonStart, nil
	case !slices.Contains(calls, given):
		return "", fmt.Errorf("request.daemon: must be one of %v, is %s", calls, given)
	}
	return given, nil
}

// reasonOfCall returns the reason of a call: that of the request, or the only one of the handler.
func (c *Case) reasonOfCall() (hook.Reason, error) {
	h := c.target.handler
	given := hook.Reason(c.spec.Request.Reason)
	switch {
	case given != "" && !slices.Contains(possibleReasons(h), given):
		return "", fmt.Errorf("request.reason: the handler has %v, not %s", possibleReasons(h), given)
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
		Controller: c.controllerObject(c.target.controller.Admission.Object), Webhook: h.Name, UID: cmp.Or(r.UID, "0"),
		Operation: hook.Operation(r.Operation),
		Resource:  r.Resource, Subresource: r.Subresource, DryRun: r.DryRun,
		User: hook.User{Name: "kubernetes-admin", Groups: []string{"system:authenticated"}},
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
		o, err := c.target.complete("request."+one.field, one.raw, defaults{resource: c.reviewed(), name: defaultName,
			namespace: "default"})
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
	return c.target.responseFields(record.Response{Review: response}, request.Namespace)
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
	if strings.ContainsAny(rule.Group+rule.Version+rule.Resources[0], "*/") {
		return object.Resource{}
	}
	apiVersion := object.Resource{Group: rule.Group, Version: rule.Version}.APIVersion()
	resource, err := c.target.kinds.Resolve(context.Background(), apiVersion, rule.Resources[0])
	if err != nil || resource.Kind == resource.Plural {
		return object.Resource{}
	}
	return resource
}

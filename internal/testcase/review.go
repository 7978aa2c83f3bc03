package testcase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

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

package handler

import (
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// invoke calls a handler with its timeout.
func (c *Controller) invoke(ctx context.Context, of *controller.Run, n *hook.HandlerRequest, h *trigger.Handler) (*hook.HandlerResponse,
	error) {
	if h.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, h.Timeout)
		defer cancel()
		ctx = limited
	}
	started := c.Tools.Now()
	ctx, span := trace.Start(ctx, trace.Internal, "handler", h.Title())
	span.Set(trace.AttrReason, string(n.Reason))
	ctx, output := of.WithOutput(ctx)
	asked := recordedRequest(n)
	n.Reader = reader{c, n.Namespace, of.Secrets}
	of.See(&asked, &record.Response{})
	response, err := c.handleAndRecover(ctx, of.Secrets, n, h)
	if response != nil {
		copied := *response
		copied.Err, response = of.Secrets.Error(response.Err), &copied
		of.See(&record.Request{}, &record.Response{Handler: response})
	}
	if err == nil {
		err = permit.CheckResponse(h, n, response)
	}
	if err == nil {
		err = c.permissions.CheckResponse(n, response)
	}
	err = of.Secrets.Error(err)
	failed := err
	if err == nil {
		failed = response.Err
	}
	span.End(failed)
	if of.Record.Detailed() {
		of.Record.Called(started, record.Call{Name: h.Title(), Reason: string(n.Reason), Sent: asked,
			Received: record.Response{Handler: response}, Err: failed, Printed: output})
	}
	c.Tools.Observer.Handled(c.program.Name, h.Name, n.Reason, c.Since(started), failed)
	if failed == nil {
		c.Log.Debug("handled", "handler", h.Name, "reason", string(n.Reason), "namespace", n.Namespace, "name", n.Name)
	}
	return response, err
}

// recordedRequest returns a request in the form that records keep. It must not reference the
// controller, which would keep it in memory.
func recordedRequest(n *hook.HandlerRequest) record.Request {
	kept := *n
	kept.Reader = nil
	return record.Request{Handler: &kept}
}

// handleAndRecover calls a handler, which may be a Go function.
func (c *Controller) handleAndRecover(ctx context.Context, values *redact.Values, n *hook.HandlerRequest,
	h *trigger.Handler) (response *hook.HandlerResponse, err error) {
	err = c.CallUserCode("the handler", failure.Handler, logAttrs(n, h), values, func() (err error) {
		response, err = h.Do.Handle(ctx, n)
		return err
	})
	if err == nil && response == nil {
		response = &hook.HandlerResponse{}
	}
	return withWholeNumbers(response), err
}

// withWholeNumbers returns a response whose whole numbers are integers.
func withWholeNumbers(response *hook.HandlerResponse) *hook.HandlerResponse {
	if response == nil {
		return nil
	}
	whole := *response
	whole.Patch, whole.Status = object.WholeNumbers(whole.Patch), object.WholeNumbers(whole.Status)
	whole.Apply = slices.Clone(whole.Apply)
	for i := range whole.Apply {
		whole.Apply[i].Object = object.WholeNumbers(whole.Apply[i].Object)
	}
	return &whole
}

func logAttrs(n *hook.HandlerRequest, h *trigger.Handler) []any {
	return []any{"handler", h.Name, "namespace", n.Namespace, "name", n.Name}
}

// reader lists objects for handlers, limited to what the program declares.
type reader struct {
	controller *Controller
	// namespace is that of the handled object.
	namespace string
	// values are those of the Secrets that the caller knows, and that were read.
	values *redact.Values
}

// List calls the API server: rare reads are not worth a watch.
func (r reader) List(ctx context.Context, apiVersion, kind, namespace, selector string) (hook.Group, error) {
	group := hook.Group{APIVersion: apiVersion, Kind: kind}
	p := &r.controller.program
	if limits := p.Namespaces; p.Resource.Namespaced && len(limits) > 0 && !slices.Contains(limits, namespace) {
		return group, &hook.TerminalError{Err: fmt.Errorf("may not list %s in the namespace %q: the controller is limited to %v",
			kind, namespace, limits)}
	}
	for _, resource := range p.Reads {
		if !permit.MatchesKind(resource, apiVersion, kind) {
			continue
		}
		if resource.Unserved {
			return group, nil
		}
		found, err := r.controller.Tools.WriterFor(r.namespace).List(ctx, resource, namespace, selector)
		if err != nil {
			return group, fmt.Errorf("list %s: %w", resource, err)
		}
		for _, o := range found {
			group.Objects = append(group.Objects, hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSON()})
		}
		controller.SeeObjects(r.values, found)
		r.values.Found() // It reads them: a daemon lists as long as it runs.
		return group, nil
	}
	return group, permit.Undeclared("list", false, apiVersion, kind)
}

package testcase

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

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
		previous, err = c.target.complete("request.previousState", r.PreviousState,
			defaults{resource: p.Resource, name: o.Name(), namespace: o.Namespace()})
		if err != nil {
			return nil, err
		}
		request.PreviousState, request.Changes = previous.JSON(), h.Changes(previous, o)
	}
	if request.Owned, err = c.groups("owned", r.Owned, p.Owns, o); err != nil {
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

// reason returns the reason of a call: that of the request, or the only one of the handler.
func (c *Case) reason() (hook.Reason, error) {
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

// possibleReasons are those for which a handler is called.
func possibleReasons(h *trigger.Handler) []hook.Reason {
	if h.Daemon != nil {
		return []hook.Reason{hook.ReasonDaemon}
	}
	all := slices.Clone(h.On)
	if h.Every > 0 || h.Schedule != nil {
		all = append(all, hook.ReasonTimer)
	}
	return all
}

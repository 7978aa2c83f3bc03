package handler

import (
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// holds evaluates the expression of a handler.
func (h *Handler) holds(reason hook.Reason, old, now *object.Object) (bool, error) {
	if h.Expression == nil {
		return true, nil
	}
	return h.Expression(reason, old, now)
}

// mayHold is true unless the expression is certainly false: a deletion waits until it is known.
func (h *Handler) mayHold(reason hook.Reason, old, now *object.Object) bool {
	holds, err := h.holds(reason, old, now)
	return holds || err != nil
}

// mayHandle reports whether the handler may be called for an object, for any of its reasons.
func (h *Handler) mayHandle(o *object.Object) bool {
	reasons := h.On
	switch {
	case h.Expression == nil:
		return true
	case h.Daemon != nil:
		reasons = append(slices.Clip(reasons), hook.ReasonDaemon)
	case h.Every > 0 || h.Schedule != nil:
		reasons = append(slices.Clip(reasons), hook.ReasonTimer)
	}
	return slices.ContainsFunc(reasons, func(reason hook.Reason) bool { return h.mayHold(reason, nil, o) })
}

// mayBeCalled reports whether the handler would be called for an object that it has not seen before. An expression
// that fails without a former object is one about changes.
func (h *Handler) mayBeCalled(reason hook.Reason, o *object.Object) bool {
	if !h.matches(nil, o) {
		return false
	}
	holds, err := h.holds(reason, nil, o)
	return holds && err == nil
}

// lastReason is the reason for which a deletion waits for the handler.
func (h *Handler) lastReason() hook.Reason {
	if h.Daemon != nil {
		return hook.ReasonDaemon
	}
	return hook.ReasonDelete
}

// firstReason is the first of the handler's reasons that depend on what it has seen.
func (h *Handler) firstReason() hook.Reason {
	for _, reason := range changeReasons {
		if h.handles(reason) {
			return reason
		}
	}
	return hook.ReasonUpdate
}

// holds evaluates the expression of a handler before a call, and records its error.
func (r *run) holds(h *handlerMemory, reason hook.Reason, old, now *object.Object) bool {
	holds, err := h.holds(reason, old, now)
	if err == nil {
		return holds
	}
	if !slices.Contains(r.failedExpressions, h) {
		r.failedExpressions = append(r.failedExpressions, h)
		h.expressionFailed = true
		r.recordError(h, failure.WithReason(ReasonExpressionFailed, fmt.Errorf("handler %s: %w", h.Name, err)))
	}
	return false
}

// clearExpressionFailure forgets the error of a handler's expression, unless it failed in this run too.
func (r *run) clearExpressionFailure(h *handlerMemory) (failed bool) {
	failed = slices.Contains(r.failedExpressions, h)
	if h.expressionFailed && !failed {
		h.failed, h.expressionFailed = nil, false
	}
	return failed
}

package handler

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
)

// ConditionHandled is True when all handlers of an object have succeeded. Setpoint sets it
// only if the status has conditions.
const ConditionHandled = "Handled"

// condition returns the condition for the status. It returns false if the status cannot have
// conditions, by the schema, the object, or the responses, or if no handler has failed so far.
func (r *run) condition() (hook.Condition, bool) {
	if r.detached {
		return hook.Condition{}, false
	}
	former, placed := r.currentCondition()
	if !r.program.Conditions && !r.memory.conditions && !placed {
		return hook.Condition{}, false
	}
	if former.Status == "False" && !r.ownsCondition(former) {
		return hook.Condition{}, false
	}
	now := hook.Condition{Type: ConditionHandled, Status: "True", Reason: ReasonHandled, Message: "no handler is failing"}
	if failed := r.firstError(); failed != nil {
		now.Status, now.Reason, now.Message = "False", failed.reason, r.signature()+failed.message
	} else if r.memory.throttle.isActive() {
		now.Status, now.Reason, now.Message = "False", ReasonConflicting, r.signature()+r.memory.throttle.message
	} else if former.Status != "False" || r.hasUnknownFailure() {
		// A handler may keep a condition of this type itself, with a reason of its own.
		return hook.Condition{}, false
	}
	return now, now != former
}

// ownsCondition reports whether this program set the existing condition. Two programs that
// overwrote each other's would never stop. A conflict ends for both programs at once, so
// either may clear it.
func (r *run) ownsCondition(former hook.Condition) bool {
	return strings.HasPrefix(former.Message, r.signature()) || r.resolved && former.Reason == ReasonConflicting
}

// signature returns the prefix of the program's condition messages.
func (r *run) signature() string { return r.program.Name + ": " }

// hasUnknownFailure reports whether a handler gave up in an earlier process. Only the
// condition has the error then.
func (r *run) hasUnknownFailure() bool {
	return slices.ContainsFunc(r.memory.handlers, func(h *handlerMemory) bool { return h.entry().Failed })
}

// firstError returns the error of the first failing handler; nil if there is none.
func (r *run) firstError() *handlerError {
	for _, h := range r.memory.handlers {
		if h.failed != nil {
			return h.failed
		}
	}
	return nil
}

// currentCondition returns the existing condition, and whether the status can have one:
// Setpoint writes conditions only to custom resources.
func (r *run) currentCondition() (former hook.Condition, placed bool) {
	var list []hook.Condition
	field := r.Stored.Field("status", "conditions")
	if field == nil || !r.program.Resource.Custom || json.Unmarshal(field, &list) != nil {
		return hook.Condition{}, false
	}
	for _, c := range list {
		if c.Type == ConditionHandled {
			former = c
		}
	}
	return former, true
}

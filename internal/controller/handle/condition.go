package handle

import (
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// ConditionHandled is True when all handlers of an object have succeeded. An object has it if its
// status has conditions.
const ConditionHandled = "Handled"

// condition is what there is to say of the handlers in the status, if it has a
// place for that: by its schema, or because conditions are there already, or are
// in answers. It begins with the first failure.
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
	if reason, message, _ := r.firstError(); message != "" {
		now.Status, now.Reason, now.Message = "False", reason, r.signature()+message
	} else if r.memory.throttle.isActive() {
		now.Status, now.Reason, now.Message = "False", ReasonConflicting, r.signature()+r.memory.throttle.message
	} else if former.Type == "" || r.hasUnknownFailure() {
		return hook.Condition{}, false
	}
	return now, now != former
}

// ownsCondition says that it is for this program to take a condition back. Two programs that did
// not respect that would write it in turn, without end. A conflict takes two: it is over
// for both when it is for one.
func (r *run) ownsCondition(former hook.Condition) bool {
	return strings.HasPrefix(former.Message, r.signature()) || r.resolved && former.Reason == ReasonConflicting
}

// signature begins the message of a program's condition.
func (r *run) signature() string { return r.program.Name + ": " }

// hasUnknownFailure says that a handler gave up in the time of another process: with what,
// stands in the condition alone.
func (r *run) hasUnknownFailure() bool {
	for _, e := range r.currentState() {
		if e.Failed {
			return true
		}
	}
	return false
}

// firstError is what the first handler that is not well failed with.
func (r *run) firstError() (reason, message string, fault *record.Fault) {
	for i := range r.memory.handlers {
		if m := &r.memory.handlers[i]; m.errorMessage != "" {
			return m.errorReason, m.errorMessage, m.fault
		}
	}
	return "", "", nil
}

// currentCondition is the one that is there, and whether there is a place for one:
// a list of conditions in the status of a custom resource.
func (r *run) currentCondition() (former hook.Condition, placed bool) {
	var list []hook.Condition
	field := r.stored.Field("status", "conditions")
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

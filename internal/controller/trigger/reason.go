package trigger

// Reasons of events on handled objects, and of the condition Handled.
const (
	// ReasonHandled goes with status True.
	ReasonHandled = "Handled"
	// ReasonHandlerFailed: a handler failed; Setpoint retries. What to do: see the error in the message, and the log
	// of the process.
	ReasonHandlerFailed = "HandlerFailed"
	// ReasonExpressionFailed: the expression in when of a handler failed, so it is not known whether the handler
	// handles the object. Setpoint evaluates it again when the object changes. What to do: correct the expression,
	// such as with has() for a field that may be missing.
	ReasonExpressionFailed = "ExpressionFailed"
	// ReasonGaveUp: the retries of a handler are exhausted, or its error is permanent. Setpoint calls it again when a
	// watched field changes. What to do: mend what the error says, then `setpoint reconcile` the object or change a
	// watched field.
	ReasonGaveUp = "HandlerGaveUp"
	// ReasonInvalidResponse: the response of a handler is invalid or not permitted; the message has the field path.
	// What to do: correct the response at that path. Nothing of it was applied.
	ReasonInvalidResponse = "InvalidResponse"
	// ReasonConflicting: the object changes more than once a second for long, so Setpoint throttles its handlers. The
	// message names the handler and the fields. What to do: do not watch fields that the handlers, or another client,
	// change all the time.
	ReasonConflicting = "Conflicting"
	// ReasonPreviousStateNotStored: the watched fields of a handler are too large for the record, so the previous
	// state is unknown after a restart. What to do: nothing, unless the handler needs the previous state: then watch
	// fewer fields.
	ReasonPreviousStateNotStored = "PreviousStateNotStored"
	// ReasonEvictionRefused: a PodDisruptionBudget has refused an eviction for ten seconds; Setpoint retries. What to
	// do: wait for the pods of the budget to be ready, or change the budget.
	ReasonEvictionRefused = "EvictionRefused"
	// ReasonDaemonStuck: a daemon did not return within its stop timeout. What to do: make the daemon return when its
	// context is canceled, or in Python when stopped is set.
	ReasonDaemonStuck = "DaemonStuck"
	// ReasonConflictResolved: the object has not changed for a minute, and Setpoint no longer throttles its handlers.
	// What to do: nothing.
	ReasonConflictResolved = "ConflictResolved"
)

// ConditionHandled is True when all handlers of an object have succeeded. Setpoint sets it
// only if the status has conditions.
const ConditionHandled = "Handled"

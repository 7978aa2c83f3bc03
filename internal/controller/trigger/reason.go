package trigger

// Reasons of events on handled objects, and of the condition Handled.
const (
	// ReasonHandled goes with status True.
	ReasonHandled = "Handled"
	// ReasonHandlerFailed: a handler failed; Setpoint retries.
	ReasonHandlerFailed = "HandlerFailed"
	// ReasonExpressionFailed: the expression in when of a handler failed, so it is not known whether the handler
	// handles the object. Setpoint evaluates it again when the object changes.
	ReasonExpressionFailed = "ExpressionFailed"
	// ReasonGaveUp: the retries of a handler are exhausted, or its error is permanent. Setpoint
	// calls it again when a watched field changes.
	ReasonGaveUp = "HandlerGaveUp"
	// ReasonInvalidResponse: the response of a handler is invalid or not permitted; the message
	// has the field path.
	ReasonInvalidResponse = "InvalidResponse"
	// ReasonConflicting: the object changes more than once a second for long, so Setpoint throttles
	// its handlers. The message names the handler and the fields.
	ReasonConflicting = "Conflicting"
	// ReasonPreviousStateNotStored: the watched fields of a handler are too large for the record, so the previous state
	// is unknown after a restart.
	ReasonPreviousStateNotStored = "PreviousStateNotStored"
	// ReasonEvictionRefused: a PodDisruptionBudget has refused an eviction for ten seconds;
	// Setpoint retries.
	ReasonEvictionRefused = "EvictionRefused"
	// ReasonDaemonStuck: a daemon did not return within its stop timeout.
	ReasonDaemonStuck = "DaemonStuck"
	// ReasonConflictResolved: the object has not changed for a minute, and Setpoint no longer
	// throttles its handlers.
	ReasonConflictResolved = "ConflictResolved"
)

// ConditionHandled is True when all handlers of an object have succeeded. Setpoint sets it
// only if the status has conditions.
const ConditionHandled = "Handled"

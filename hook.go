package setpoint

import "github.com/setpoint-dev/setpoint/hook"

// Reason is why a handler is called.
type Reason = hook.Reason

// The reasons of handlers. See the methods of Handler.
const (
	ReasonCreate  = hook.ReasonCreate
	ReasonUpdate  = hook.ReasonUpdate
	ReasonDelete  = hook.ReasonDelete
	ReasonResume  = hook.ReasonResume
	ReasonEvent   = hook.ReasonEvent
	ReasonDrift   = hook.ReasonDrift
	ReasonRelated = hook.ReasonRelated
	ReasonTimer   = hook.ReasonTimer
)

// FieldChange is a changed field of an object, with JSON values.
type FieldChange = hook.FieldChange

// User is the user who requests a change.
type User = hook.User

// Operation is an operation on an object, as the API server names it.
type Operation = hook.Operation

// The operations that a webhook can review.
const (
	OperationCreate  = hook.OperationCreate
	OperationUpdate  = hook.OperationUpdate
	OperationDelete  = hook.OperationDelete
	OperationConnect = hook.OperationConnect
)

package controller

import (
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Observer receives what a controller does. Its methods must be quick.
type Observer interface {
	// Ran receives the record of each run.
	Ran(run record.Run)
	// Deleted receives the record of each deletion of a managed object.
	Deleted(deletion record.Run)
	// Handled receives each call of a handler; err is nil if it succeeded.
	Handled(program, handler string, reason hook.Reason, took time.Duration, err error)
	// Event receives the events about managed objects, which the controller sends.
	Event(o *object.Object, event hook.Event)
	// OwnEvent receives the events that Setpoint itself sends: what the ServiceAccount of the controller may not
	// do, it may not be able to report either.
	OwnEvent(o *object.Object, event hook.Event)
}

// Types of events.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Reasons of events of both loops, on parents and on handled objects.
const (
	// ReasonWriteFailed: the API server refused a write; the message is the server's. Setpoint retries.
	ReasonWriteFailed = "WriteFailed"
	// ReasonStatusPruned: the API server did not store a field of the status, because the schema of the kind does not have
	// it. Setpoint writes it again every ten minutes and when a user requests a reconcile.
	ReasonStatusPruned = "StatusPruned"
	// ReasonInternalError: a Go function panicked, or Setpoint has a defect; the log has the stack.
	ReasonInternalError = "InternalError"
	// ReasonPaused: the annotation setpoint.dev/paused stops the controller for this object.
	ReasonPaused = "Paused"
	// ReasonResumed: the controller continues after a pause.
	ReasonResumed = "Resumed"
	// ReasonFinalizing: the object has been in deletion for more than ten seconds; the message says what it waits for.
	ReasonFinalizing = "Finalizing"
	// ReasonRequested: a user requested the reconcile by setpoint.dev/reconcile-at.
	ReasonRequested = "ReconcileRequested"
)

const (
	// EventInterval is the minimum time between two events about the same failure. With
	// the maximum backoff and the default timeout of hooks, a failing object sends an
	// event at least once a minute.
	EventInterval = 15 * time.Second
	// ConflictDelay is the delay after a conflict. The cache has seen the change by then.
	ConflictDelay = 100 * time.Millisecond
	// MaxConflicts is how many conflicts in a row are not yet a failure.
	MaxConflicts = 20
)

// ErrConflict ends a run that met an object which another client had changed. The run is
// repeated with the object as it is then.
var ErrConflict = errors.New("an object changed meanwhile")

// ErrTooManyConflicts means that ErrConflict lasted too long.
var ErrTooManyConflicts = errors.New("too many conflicts in a row")

// ReasonOf is the reason of the event about an error.
func ReasonOf(err error) string { return failure.Reason(err, ReasonWriteFailed) }

// CallUserCode calls a function of the user. A panic or runtime.Goexit becomes an error, and the log
// has its stack. Neither has the values.
func (b *Base) CallUserCode(what string, source failure.Source, attrs []any, values *redact.Values, do func() error) error {
	err := values.Error(failure.Recover(what, do))
	if stack, crashed := failure.PanicStack(err); crashed {
		b.Log.With(attrs...).Error("user code crashed", "error", failure.OneLine(err), "stack", values.Text(stack))
	}
	return failure.WithSource(source, err)
}

// RecordDeletion records a deletion. It skips controllers with selectors on the server, where
// an object that stops matching looks deleted.
func (b *Base) RecordDeletion(o *object.Object) {
	if !b.Tools.Unrecorded && !b.options.Filtered && b.manages(o) {
		b.Tools.Observer.Deleted(record.Deletion(b.options.Name, b.options.Resource, o, b.Tools.Now()))
	}
}

// PrunedRetry is how long a field of the status waits that the API server did not store: nothing tells when the schema
// of the kind has it.
const PrunedRetry = 10 * time.Minute

// ReportPruned sends an event, once, about a field of the status that the API server did not store; "" for none.
func (r *Run) ReportPruned(field string) {
	if field == "" {
		return
	}
	r.SendOnce(hook.Event{
		Type: Warning, Reason: ReasonStatusPruned,
		Message: "status." + field + " was not stored: the schema of " + r.Stored.Kind() +
			" does not have the field; add it to the CustomResourceDefinition, or do not return it",
	})
}

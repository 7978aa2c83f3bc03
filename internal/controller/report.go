package controller

import (
	"errors"
	"runtime/debug"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Observer receives what a controller does. Its methods must be quick.
type Observer interface {
	// Ran receives the record of each run.
	Ran(run record.Run)
	// Deleted receives the record of each deletion of a managed object.
	Deleted(deletion record.Run)
	// Event receives the events about managed objects.
	Event(o *object.Object, event hook.Event)
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
	// ReasonInternalError: a Go function panicked, or Setpoint has a defect; the log has the stack.
	ReasonInternalError = "InternalError"
	// ReasonPaused: the annotation setpoint.dev/paused stops the controller for this object.
	ReasonPaused = "Paused"
	// ReasonResumed: the controller continues after a pause.
	ReasonResumed = "Resumed"
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

// ReasonOf is the reason of the event about an error.
func ReasonOf(err error) string { return failure.Reason(err, ReasonWriteFailed) }

// NewRecord starts the record of a run.
func (b *Base) NewRecord(run record.Run) *record.Record {
	run.Controller, run.Resource = b.options.Name, b.options.Resource
	if b.options.Unrecorded {
		return record.NewSummary(run, b.options.Now)
	}
	return record.New(run, b.options.Now)
}

// RecordDeletion records a deletion. It skips controllers with selectors on the server, where
// an object that stops matching looks deleted.
func (b *Base) RecordDeletion(o *object.Object) {
	if !b.options.Unrecorded && !b.options.Filtered && b.options.Manages(o) {
		b.options.Observer.Deleted(record.Deletion(b.options.Name, b.options.Resource, o, b.options.Now()))
	}
}

// SendEvent sends an event about an object.
func (b *Base) SendEvent(rec *record.Record, o *object.Object, event hook.Event) {
	b.options.Observer.Event(o, event)
	rec.EventSent(event)
}

// Failure is a failed run.
type Failure struct {
	Err   error
	Event hook.Event
	// Once limits events with the same message to one; else EventInterval limits them.
	Once bool
	// Attrs are attributes of the log line.
	Attrs []any
}

// ReportFailure logs a failure and sends an event, unless the latest one said the same.
func (b *Base) ReportFailure(rec *record.Record, o *object.Object, memory *Memory, f Failure) {
	message := failure.OneLine(f.Err)
	log := b.Log.With(append(f.Attrs, "object", o.Ref().String(), "error", message)...)
	last := &memory.reported
	if last.message == message && (f.Once || b.Since(last.at) < EventInterval) {
		log.Debug("reconcile failed again")
		return
	}
	log.Warn("reconcile failed")
	b.SendEvent(rec, o, f.Event)
	last.message, last.at = message, b.options.Now()
}

// ReportPause sends an event when an object was paused or resumed.
func (b *Base) ReportPause(rec *record.Record, o *object.Object, paused bool) {
	event := hook.Event{Type: Normal, Reason: ReasonResumed, Message: "Reconciliation by " + b.options.Name + " resumed"}
	if paused {
		event = hook.Event{Type: Normal, Reason: ReasonPaused,
			Message: "Reconciliation by " + b.options.Name + " paused while the annotation " + setpoint.AnnotationPaused + " is \"true\""}
	}
	b.SendEvent(rec, o, event)
}

// ReportManualReconcile sends an event when a user has requested the reconcile.
func (b *Base) ReportManualReconcile(rec *record.Record, o *object.Object, item queue.Item) {
	if item.Causes.Has(queue.ReconcileRequested) {
		b.SendEvent(rec, o, hook.Event{Type: Normal, Reason: ReasonRequested, Message: "Reconciled by " + b.options.Name + " on request"})
	}
}

// Recover calls step and returns its panic as an error: a defect met by one object must not
// stop the others.
func (b *Base) Recover(key queue.Key, step func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			b.Log.Error("run panicked", "object", key.String(), "panic", p, "stack", string(debug.Stack()))
			err = failure.WithReason(ReasonInternalError, failure.FromPanic("internal error in Setpoint", p))
		}
	}()
	return step()
}

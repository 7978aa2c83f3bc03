package controllers

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/manager/revisions"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// writer returns what writes as Setpoint itself.
func (d *Dependencies) writer() *apply.Writer {
	return apply.New(d.Client, apply.Options{Observe: d.Metrics.ObserveRequest})
}

// revisions returns what stores the versions of the logic of controllers.
func (d *Dependencies) revisions() *revisions.Store {
	return &revisions.Store{Writer: d.writer(), Namespace: d.Namespace}
}

// observer passes what controllers report to metrics, events and the history.
type observer struct {
	*serving.Metrics
	events  *events.Writer
	account identity.Account
	history *inspect.History
	// recorders are those of the process.
	recorders *recording.Recorders
}

// Event sends an event as the ServiceAccount.
func (o observer) Event(at *object.Object, event hook.Event) {
	o.events.EventAs(o.account.UserFor(at.Namespace()), at, event)
}

// OwnEvent sends an event as Setpoint.
func (o observer) OwnEvent(at *object.Object, event hook.Event) { o.events.Event(at, event) }

// Ran records a run.
func (o observer) Ran(run record.Run) {
	o.ObserveRun(&run)
	o.recorders.Ran(&run)
	o.history.Add(run)
}

// Deleted records a deletion, which is not counted as a run.
func (o observer) Deleted(deletion record.Run) { o.history.Add(deletion) }

// Handled counts a handler call.
func (o observer) Handled(program, handler string, reason hook.Reason, took time.Duration, err error) {
	o.ObserveHandler(program, handler, reason, took, err)
	o.history.AddCall(program, handler, inspect.CallOutcome(err), took)
}

package controller

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
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

// Unobserved is an Observer that ignores everything.
type Unobserved struct{}

// Ran implements Observer, as do the others.
func (Unobserved) Ran(record.Run) {}

// Deleted ignores a deletion.
func (Unobserved) Deleted(record.Run) {}

// Handled ignores a call of a handler.
func (Unobserved) Handled(string, string, hook.Reason, time.Duration, error) {}

// Event ignores an event.
func (Unobserved) Event(*object.Object, hook.Event) {}

// OwnEvent ignores an event.
func (Unobserved) OwnEvent(*object.Object, hook.Event) {}

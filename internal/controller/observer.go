package controller

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

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

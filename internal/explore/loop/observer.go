package loop

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// observer keeps the error of the latest run, and ignores all else.
type observer struct{ err error }

var _ controller.Observer = &observer{}

// Ran keeps the error of a run.
func (o *observer) Ran(run record.Run) { o.err = run.Err }

// Deleted ignores deletions, which the search knows.
func (o *observer) Deleted(record.Run) {}

// Event ignores an event.
func (o *observer) Event(*object.Object, hook.Event) {}

// OwnEvent ignores an event.
func (o *observer) OwnEvent(*object.Object, hook.Event) {}

// Handled ignores calls of handlers.
func (o *observer) Handled(string, string, hook.Reason, time.Duration, error) {}

package loop

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// SentEvent is a Kubernetes event that a run sends.
type SentEvent struct {
	Object object.Ref
	hook.Event
}

// observer keeps what the controllers report.
type observer struct {
	runs   []record.Run
	events []SentEvent
}

var _ controller.Observer = &observer{}

// Ran keeps the record of a run.
func (o *observer) Ran(run record.Run) { o.runs = append(o.runs, run) }

// Deleted ignores deletions, which the search knows.
func (o *observer) Deleted(record.Run) {}

// Event keeps an event.
func (o *observer) Event(about *object.Object, event hook.Event) {
	o.events = append(o.events, SentEvent{about.Ref(), event})
}

// OwnEvent keeps an event.
func (o *observer) OwnEvent(about *object.Object, event hook.Event) { o.Event(about, event) }

// Handled ignores calls of handlers, which the record has.
func (o *observer) Handled(string, string, hook.Reason, time.Duration, error) {}

package engine

import (
	"hash/maphash"
	"slices"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// tellReply passes on the events of a reply that has been carried out, be it the
// last of its run or not. One that stands in reply after reply is told once,
// until it was left out of one.
func (r *run) tellReply() {
	told := make([]uint64, 0, len(r.reply.Events))
	for _, event := range r.reply.Events {
		digest := maphash.Comparable(inputSeed, event)
		if !slices.Contains(r.memory.told, digest) && !slices.Contains(told, digest) {
			r.say(event)
		}
		told = append(told, digest)
	}
	r.memory.told = told
}

// tellPause says once that a parent is left alone, and once that it is not any
// more.
func (r *run) tellPause() {
	paused := r.stance == pausing
	if paused == r.memory.paused {
		return
	}
	event := hook.Event{Type: normal, Reason: ReasonResumed, Message: "in the care of " + r.program.Name + " again"}
	if paused {
		event.Reason = ReasonPaused
		event.Message = "left alone by " + r.program.Name + " while the annotation " + setpoint.AnnotationPaused + " is \"true\""
	}
	r.say(event)
	r.memories.pause(r.memory, paused)
}

// tellRequest says that a sync which a user asked for was done.
func (r *run) tellRequest() {
	if r.item.Causes.Has(queue.UserAsked) {
		r.say(hook.Event{Type: normal, Reason: ReasonRequested,
			Message: "synced by " + r.program.Name + ", as was asked for"})
	}
}

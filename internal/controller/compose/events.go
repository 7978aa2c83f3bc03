package compose

import (
	"hash/maphash"
	"slices"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reportResponseEvents sends the events of an applied response. An event that is in every response
// is sent once.
func (r *run) reportResponseEvents() {
	reported := make([]uint64, 0, len(r.response.Events))
	for _, event := range r.response.Events {
		digest := maphash.Comparable(inputSeed, event)
		if !slices.Contains(r.memory.sentEvents, digest) && !slices.Contains(reported, digest) {
			r.sendEvent(event)
		}
		reported = append(reported, digest)
	}
	r.memory.sentEvents = reported
}

// reportPause sends an event when the parent is paused or resumed.
func (r *run) reportPause() {
	paused := r.phase == phasePaused
	if paused == r.memory.paused {
		return
	}
	event := hook.Event{Type: normal, Reason: ReasonResumed, Message: "Reconciliation by " + r.program.Name + " resumed"}
	if paused {
		event.Reason = ReasonPaused
		event.Message = "Reconciliation by " + r.program.Name + " paused while the annotation " + setpoint.AnnotationPaused + " is \"true\""
	}
	r.sendEvent(event)
	r.memories.setPaused(r.memory, paused)
}

// reportManualReconcile sends an event after a reconcile that a user requested.
func (r *run) reportManualReconcile() {
	if r.item.Causes.Has(queue.ReconcileRequested) {
		r.sendEvent(hook.Event{Type: normal, Reason: ReasonRequested,
			Message: "Reconciled by " + r.program.Name + " on request"})
	}
}

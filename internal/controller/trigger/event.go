package trigger

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// TakeEvents adds the events to those that each handler has not seen: what this run does not
// reach, the next run does.
func (p *Pass) TakeEvents(events []Event) {
	// The watch may deliver our own write before the request returns.
	external := func(o *object.Object) bool {
		return o.UID() == p.Object.UID() && p.Rules.Selects(o) && !slices.Contains(p.ownVersions, o.Version())
	}
	for _, h := range p.Handlers {
		if !h.handles(hook.ReasonEvent) {
			continue
		}
		if !p.Managed {
			h.Events = nil
			continue
		}
		for _, e := range events {
			if e.New != nil && external(e.New) && h.matches(e.Old, e.New) && p.holds(h, hook.ReasonEvent, e.Old, e.New) {
				h.Events = AppendEvent(h.Events, e)
			}
		}
		if p.Throttled() {
			h.Events = mergeEvents(h.Events)
		}
	}
}

// EventCall returns the call for one event. The object in it may be newer than the event.
func (v *Observation) EventCall(h *State, e Event) Call {
	return Call{Handler: h, Reason: hook.ReasonEvent, Object: v.Object, watched: h.watched, Previous: e.Old, Event: e}
}

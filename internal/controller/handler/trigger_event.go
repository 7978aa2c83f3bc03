package handler

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxEvents bounds the buffered events of one object. Further events are merged.
const maxEvents = 16

// observedEvent is a change of an object with its type.
type observedEvent struct {
	cache.Event

	kind hook.EventType
}

// observed returns an event of a watch. A new list after an interrupted watch yields the differences
// only, so an unknown object has been added.
func observed(e cache.Event) observedEvent {
	switch {
	case e.New == nil:
		return observedEvent{e, hook.EventDeleted}
	case e.Old == nil:
		return observedEvent{e, hook.EventAdded}
	}
	return observedEvent{e, hook.EventModified}
}

// appendEvent adds an event, once. Above the limit it merges the last two, but no deletion.
func appendEvent(list []observedEvent, e observedEvent) []observedEvent {
	if len(list) == 0 || e.New == nil {
		return append(list, e)
	}
	last := &list[len(list)-1]
	switch {
	case last.New == e.New:
	case len(list) >= maxEvents && last.New != nil:
		last.New = e.New
	default:
		return append(list, e)
	}
	return list
}

// mergeEvents merges events into one.
func mergeEvents(list []observedEvent) []observedEvent {
	if len(list) < 2 {
		return list
	}
	first := list[0]
	first.New = list[len(list)-1].New
	return []observedEvent{first}
}

// takeEvents adds the events to those that each handler has not seen: what this run does not
// reach, the next run does.
func (p *Pass) takeEvents(events []observedEvent) {
	for _, h := range p.handlers {
		if !h.handles(hook.ReasonEvent) {
			continue
		}
		if !p.managed {
			h.events = nil
			continue
		}
		for _, e := range events {
			if e.New != nil && p.isExternalChange(e.New) && h.matches(e.Old, e.New) && p.holds(h, hook.ReasonEvent, e.Old, e.New) {
				h.events = appendEvent(h.events, e)
			}
		}
		if p.throttled() {
			h.events = mergeEvents(h.events)
		}
	}
}

// isExternalChange reports whether another client made this version of the object. The watch
// may deliver our own write before the request returns.
func (p *Pass) isExternalChange(state *object.Object) bool {
	return state.UID() == p.object.UID() && p.rules.selects(state) && !slices.Contains(p.ownVersions, state.Version())
}

// eventCall returns the call for one event. The object in it may be newer than the event.
func (v *observation) eventCall(h *state, e observedEvent) call {
	return call{handler: h, reason: hook.ReasonEvent, object: v.object, watched: h.watched, previous: e.Old, event: e}
}

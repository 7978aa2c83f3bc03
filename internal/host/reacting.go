package host

import (
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// reacting is a program of handlers at work, among those of hooks.
type reacting struct{ *react.Controller }

// Health says it in the words of hooks: handled objects are the parents, what they
// own the children.
func (r reacting) Health() engine.Health {
	h := r.Controller.Health()
	all := engine.Health{
		Synced:      h.Synced,
		WatchErrors: h.WatchErrors,
		Parents:     h.Objects,
		Children:    h.Owned,
		Paused:      h.Paused,
		InError:     h.InError,
		HookFailing: h.HandlerFailing,
		HookMessage: h.HandlerMessage,
		Unsettled:   h.Unsettled,
		Last:        engine.LastError(h.Last),
		Queue:       h.Queue,
	}
	if h.Unsettled > 0 {
		all.Unrest = react.Restless
	}
	return all
}

// reactTools are what programs of handlers work with.
func (h *Host) reactTools() react.Tools {
	return react.Tools{Store: h.store, Writer: h.writer(), Observer: h.observer(), Unrecorded: h.options.History.Off, Log: h.log}
}

package manager

import (
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
)

// handlerWorker is a program of handlers at work, among those of hooks.
type handlerWorker struct{ *handle.Controller }

// Health says it in the words of hooks: handled objects are the parents, what they
// own the children.
func (r handlerWorker) Health() compose.Health {
	h := r.Controller.Health()
	all := compose.Health{
		Synced:      h.Synced,
		WatchErrors: h.WatchErrors,
		Parents:     h.Objects,
		Children:    h.Owned,
		Paused:      h.Paused,
		Failing:     h.Failing,
		HookFailing: h.HandlerFailing,
		HookMessage: h.HandlerMessage,
		Conflicting: h.Conflicting,
		LastError:   compose.LastError(h.LastError),
		Queue:       h.Queue,
	}
	if h.Conflicting > 0 {
		all.ConflictMessage = handle.ConflictMessage
	}
	return all
}

// handlerTools are what programs of handlers work with.
func (m *Manager) handlerTools() handle.Tools {
	return handle.Tools{Store: m.store, Writer: m.writer(), Observer: m.observer(), Unrecorded: m.options.History.Off, Log: m.log}
}

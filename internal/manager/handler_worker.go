package manager

import (
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
)

// handlerWorker runs a program of handlers as a worker.
type handlerWorker struct{ *handle.Controller }

// Health maps handled objects to parents, and owned objects to children.
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

// handlerTools returns the dependencies of handler programs.
func (m *Manager) handlerTools() handle.Tools {
	return handle.Tools{Store: m.store, Writer: m.writer(), Observer: m.observer(), Unrecorded: m.options.History.Off, Log: m.log}
}

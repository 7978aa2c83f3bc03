package register

import (
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// views watch webhook configurations.
type views map[object.Resource]*cache.View

func watchConfigurations(store *cache.Cache, labels string, changed signal) views {
	all := views{}
	for _, resource := range Resources() {
		all[resource] = store.Watch(cache.Selection{Resource: resource, Labels: labels}, func(cache.Event) { changed.send() })
	}
	return all
}

func (v views) close() {
	for _, view := range v {
		view.Close()
	}
}

// signal wakes up a loop.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

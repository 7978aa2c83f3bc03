package host

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// failures are what went wrong with the reviews of one controller.
type failures struct {
	// now are the reviews without a verdict when they were last asked for one.
	now  map[string]string
	last engine.LastError
}

// Admitted counts a review, and remembers whether there was a verdict.
func (g *gate) Admitted(o admission.Occasion) {
	g.host.metrics.admitted(o)
	message := ""
	if o.Err != nil {
		message = strings.Join(strings.Fields(o.Err.Error()), " ")
	}
	if key, known := g.note(o, message); known && message != "" {
		g.host.fleet.tellController(key, hook.Event{Type: "Warning", Reason: setpoint.ReasonHookFailing, Message: message})
	}
}

// record keeps the account of a review, where any are kept. It is called with the lock
// held.
func (g *gate) record(o admission.Occasion) {
	if g.host.options.History.Off {
		return
	}
	g.host.book.Called(o.Program, o.Webhook, string(o.Result), o.Took)
	g.host.book.Note(reviewed(o))
}

// note remembers a review and why there was no verdict, and says which controller that
// concerns. Of one that is gone nothing is remembered any more: all was forgotten.
func (g *gate) note(o admission.Occasion, message string) (key queue.Key, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if key, known = g.controllerOf(o.Program); !known {
		return key, false
	}
	g.record(o)
	failed := g.failures[o.Program]
	switch {
	case message != "":
		if failed == nil {
			failed = &failures{now: map[string]string{}}
			g.failures[o.Program] = failed
		}
		failed.now[o.Webhook] = message
		failed.last = engine.LastError{Message: message, Time: time.Now()}
	case failed != nil:
		delete(failed.now, o.Webhook)
	}
	return key, true
}

// controllerOf is the one that has a program. It is called with the lock held.
func (g *gate) controllerOf(program string) (key queue.Key, known bool) {
	for key, p := range g.programs {
		if p.Name == program {
			return key, true
		}
	}
	return queue.Key{}, false
}

// TellAt records an event at an object that a review has named.
func (g *gate) TellAt(event hook.EventAt) { g.host.events.TellAt(event) }

// health is how the reviews of a controller are doing, as far as that is told in the
// words of hooks.
func (g *gate) health(program string) engine.Health {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := engine.Health{Synced: true, WatchErrors: map[string]error{}}
	if failed := g.failures[program]; failed != nil {
		all.Last, all.HookFailing = failed.last, len(failed.now)
		for _, webhook := range slices.Sorted(maps.Keys(failed.now)) {
			all.HookMessage = failed.now[webhook]
		}
	}
	return all
}

// finding says whether the API server asks for the reviews of a controller. It is
// known where this Host leads alone.
func (g *gate) finding(program string) finding {
	g.mu.Lock()
	obstacle, registrar := g.obstacle, g.registrar
	g.mu.Unlock()
	switch {
	case obstacle != nil:
		return finding{false, setpoint.ReasonUnregistered, obstacle.Error()}
	case !g.host.office.leads():
		return finding{true, setpoint.ReasonReady, "stands by"}
	case registrar == nil:
		return finding{false, setpoint.ReasonStarting, "the server for the API server is being started"}
	}
	switch health := registrar.Health(program); {
	case health.Err != nil:
		return finding{false, setpoint.ReasonUnregistered, health.Err.Error()}
	case !health.Registered:
		return finding{false, setpoint.ReasonStarting, "the API server is being told to ask"}
	case health.Reach == admission.Unreachable:
		return finding{false, setpoint.ReasonUnreachable, "the API server cannot reach the webhooks: " + health.ReachMessage}
	case health.Reach == admission.ReachUnknown && health.ReachMessage != "":
		return finding{true, setpoint.ReasonReady, "the API server is told to ask; whether it can is not known: " + health.ReachMessage}
	case health.Reach == admission.ReachUnknown:
		return finding{false, setpoint.ReasonStarting, "whether the API server reaches the webhooks is being found out"}
	}
	return finding{true, setpoint.ReasonReady, "the API server asks, and is answered"}
}

// opening says that it is still being found out whether the API server asks what is to
// be asked. In a replica that stands by that is for the leader to find out.
func (g *gate) opening() bool {
	g.mu.Lock()
	var names []string
	for _, p := range g.programs {
		names = append(names, p.Name)
	}
	g.mu.Unlock()
	if len(names) > 0 && !g.host.options.LeaderElection.Enabled && !g.host.office.leads() {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return g.finding(name).reason == setpoint.ReasonStarting })
}

// overcome drops the failures of a controller's latest reviews, but for the last error.
func (g *gate) overcome(program string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if failed := g.failures[program]; failed != nil {
		clear(failed.now)
	}
}

// forget drops what is known of a controller that is gone.
func (g *gate) forget(program string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.failures, program)
}

// admitting is the reviews of a controller among its programs. They are at work
// whether this Host leads or not: the gate answers for them.
type admitting struct {
	gate    *gate
	program string
}

func (a admitting) Run(ctx context.Context) { <-ctx.Done() }
func (admitting) RetryNow()                 {}
func (admitting) RetryWrites()              {}
func (admitting) Close()                    {}

// SyncAll finds no objects to look at. How the former process of a hook failed says
// nothing of the one in its place.
func (a admitting) SyncAll(cause queue.CauseKind) {
	if cause == queue.HookChanged {
		a.gate.overcome(a.program)
	}
}

func (a admitting) Health() engine.Health { return a.gate.health(a.program) }

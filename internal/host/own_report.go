package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// verdict says whether a controller does its work, and what is in its way.
func (s *state) verdict(health engine.Health) finding {
	if _, refused := errors.AsType[*compile.Refusal](s.refusal); s.refusal != nil && !refused {
		return finding{false, setpoint.ReasonStarting, s.refusal.Error()}
	}
	understood := accepted(s.refusal, s.notes, health)
	if !understood.ok {
		return understood
	}
	return ready(understood, s, health)
}

// states are what has become of all controllers.
func (f *fleet) states() map[queue.Key]state {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[queue.Key]state, len(f.members))
	for key, m := range f.members {
		all[key] = m.state
	}
	return all
}

// readiness is 1 for every controller that is ready, by name, and 0 for the others.
func (f *fleet) readiness(healths map[string]engine.Health) map[string]float64 {
	all := map[string]float64{}
	for key, s := range f.states() {
		all[key.String()] = 0
		if s.verdict(healths[key.String()]).ok {
			all[key.String()] = 1
		}
	}
	return all
}

// tellOwn logs how a Go program's own controllers are doing, whenever it changes:
// they have no status where it could be read.
func (f *fleet) tellOwn(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	told := map[queue.Key]finding{}
	for {
		healths := f.health()
		for key, s := range f.states() {
			now := s.verdict(healths[key.String()])
			before := told[key]
			told[key] = now
			if now.news(before, s.running != nil) {
				f.tellOne(key, now)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// news says whether it is worth a line that a controller was found so, and before
// otherwise. What a controller says that runs may change with every object.
func (f finding) news(before finding, runs bool) bool {
	return f.ok != before.ok || f.reason != before.reason || !runs && f.message != before.message
}

func (f *fleet) tellOne(key queue.Key, now finding) {
	switch {
	case now.ok:
		f.host.log.Info("controller ready", "controller", key.String())
	case now.reason == setpoint.ReasonStarting:
		f.host.log.Info("controller starting", "controller", key.String(), "message", now.message)
	default:
		f.host.log.Warn("controller not ready", "controller", key.String(), "reason", now.reason, "message", now.message)
	}
}

// ownTrouble is why a Go program cannot be said to be ready although its caches
// are synced: a controller of it does not run, and somebody has to mend that. A
// kind that is not served yet is no trouble; the others go on.
func (f *fleet) ownTrouble() error {
	states := f.states()
	for _, own := range f.host.options.Own {
		s := states[ownKey(own.Name)]
		if s.refusal != nil && !s.refused(setpoint.ReasonResourceNotFound) {
			return fmt.Errorf("%s: %w", own.Name, s.refusal)
		}
	}
	return nil
}

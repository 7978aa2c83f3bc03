package register

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// probes check for each program whether the API server reaches the server. One goroutine
// uses them.
type probes struct {
	registrar *Registrar
	running   sync.WaitGroup
	byKey     map[probeKey]*prober
}

// probeKey identifies a program for a probe.
type probeKey struct{ name, configuration string }

type prober struct {
	stop context.CancelFunc
	// now requests a probe, and more of them for a while.
	now signal
}

// sync probes the registered programs, and no others.
func (p *probes) sync(ctx context.Context) {
	programs, _ := p.registrar.desired()
	former := maps.Clone(p.byKey)
	for _, program := range programs {
		key := probeKey{program.Name, program.Configuration}
		delete(former, key)
		if p.byKey[key] == nil && len(program.Webhooks) > 0 && !program.Unprobed && p.registrar.Health(program.Name).Registered {
			p.byKey[key] = p.start(ctx, program)
		}
	}
	for key, one := range former {
		one.stop()
		delete(p.byKey, key)
	}
}

func (p *probes) start(ctx context.Context, program *admission.Program) *prober {
	ctx, stop := context.WithCancel(ctx)
	one := &prober{stop, newSignal()}
	p.running.Go(func() { p.registrar.runProbes(ctx, program, one.now) })
	return one
}

// wake probes a program now.
func (p *probes) wake(program string) {
	for key, one := range p.byKey {
		if key.name == program {
			one.now.send()
		}
	}
}

// stop stops all probes and waits for them.
func (p *probes) stop() {
	for _, one := range p.byKey {
		one.stop()
	}
	p.running.Wait()
}

// Probes are frequent after a change, then less frequent, but stay frequent while they
// fail.
const (
	minProbeInterval     = 250 * time.Millisecond
	maxProbeInterval     = 30 * time.Second
	failingProbeInterval = 5 * time.Second
)

// runProbes probes a program until ctx ends.
func (r *Registrar) runProbes(ctx context.Context, p *admission.Program, wakeup <-chan struct{}) {
	delay, failures := minProbeInterval, 0
	for ctx.Err() == nil {
		err := sendProbe(ctx, r.options.Client, probe{r.options.Namespace, probeValue(p), fullName(probeName, p)})
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		case !apiServerUnavailable(err):
			failures++
		}
		r.reportReachability(p, err, failures)
		limit := maxProbeInterval
		if err != nil {
			limit = failingProbeInterval
		}
		timer := r.options.Clock.NewTimer(min(delay, limit))
		select {
		case <-timer.C():
			delay = min(2*delay, maxProbeInterval)
		case <-wakeup:
			delay, failures = minProbeInterval, 0
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// probeFailureThreshold is how many probes must fail in a row. The first probe after a
// change may precede the API server's update.
const probeFailureThreshold = 3

// reportReachability reports a conclusive result of a probe.
func (r *Registrar) reportReachability(p *admission.Program, err error, failures int) {
	reachability, message := Reachable, ""
	switch {
	case err == nil:
	case failures < probeFailureThreshold || apiServerUnavailable(err):
		return
	case isUnreachable(err) || errors.Is(err, errNotCalled):
		reachability, message = Unreachable, err.Error()
	default:
		reachability, message = ReachabilityUnknown, "probe in namespace "+r.options.Namespace+": "+err.Error()
	}
	r.updateHealth(p.Name, func(h *Health) { h.Reachability, h.ReachabilityMessage = reachability, message })
}

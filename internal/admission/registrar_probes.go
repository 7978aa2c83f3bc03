package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

// probes check for each program whether the API server reaches the Server.
type probes struct {
	registrar *Registrar
	running   sync.WaitGroup

	mu    sync.Mutex
	byKey map[probeKey]*prober
}

// probeKey identifies a program for a probe.
type probeKey struct{ name, configuration string }

type prober struct {
	stop   context.CancelFunc
	wakeup chan struct{}
}

func newProbes(r *Registrar) *probes { return &probes{registrar: r, byKey: map[probeKey]*prober{}} }

// sync probes the registered programs, and no others.
func (p *probes) sync(ctx context.Context) {
	programs, _ := p.registrar.desired()
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := map[probeKey]bool{}
	for key := range p.byKey {
		gone[key] = true
	}
	for _, program := range programs {
		key := probeKey{program.Name, program.Configuration}
		delete(gone, key)
		if p.byKey[key] == nil && len(program.Webhooks) > 0 && p.registrar.Health(program.Name).Registered {
			p.byKey[key] = p.start(ctx, program)
		}
	}
	for key := range gone {
		p.byKey[key].stop()
		delete(p.byKey, key)
	}
}

func (p *probes) start(ctx context.Context, program *Program) *prober {
	ctx, stop := context.WithCancel(ctx)
	one := &prober{stop: stop, wakeup: make(chan struct{}, 1)}
	p.running.Go(func() { p.registrar.runProbes(ctx, program, one.wakeup) })
	return one
}

// trigger probes a program now, and more often for a while.
func (p *probes) trigger(program string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, one := range p.byKey {
		if key.name == program {
			one.wake()
		}
	}
}

func (p *probes) triggerAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.byKey {
		one.wake()
	}
}

func (p *prober) wake() {
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

// stop stops all probes and waits for them.
func (p *probes) stop() {
	p.mu.Lock()
	for _, one := range p.byKey {
		one.stop()
	}
	p.mu.Unlock()
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
func (r *Registrar) runProbes(ctx context.Context, p *Program, wakeup <-chan struct{}) {
	delay, failures := minProbeInterval, 0
	for ctx.Err() == nil {
		err := r.options.sendProbe(ctx, r.options.Client, p)
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
func (r *Registrar) reportReachability(p *Program, err error, failures int) {
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

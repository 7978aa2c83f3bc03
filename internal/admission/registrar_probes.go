package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

// probes find out about each program whether the API server reaches the Server.
type probes struct {
	registrar *Registrar
	running   sync.WaitGroup

	mu sync.Mutex
	by map[probed]*prober
}

// probed is what stays the same while a program is the same to a probe.
type probed struct{ name, configuration string }

type prober struct {
	stop  context.CancelFunc
	nudge chan struct{}
}

func newProbes(r *Registrar) *probes { return &probes{registrar: r, by: map[probed]*prober{}} }

// keep probes the programs that are registered, and no others.
func (p *probes) keep(ctx context.Context) {
	programs, _ := p.registrar.wanted()
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := map[probed]bool{}
	for key := range p.by {
		gone[key] = true
	}
	for _, program := range programs {
		key := probed{program.Name, program.Configuration}
		delete(gone, key)
		if p.by[key] == nil && len(program.Webhooks) > 0 && p.registrar.Health(program.Name).Registered {
			p.by[key] = p.start(ctx, program)
		}
	}
	for key := range gone {
		p.by[key].stop()
		delete(p.by, key)
	}
}

func (p *probes) start(ctx context.Context, program *Program) *prober {
	ctx, stop := context.WithCancel(ctx)
	one := &prober{stop: stop, nudge: make(chan struct{}, 1)}
	p.running.Go(func() { p.registrar.attend(ctx, program, one.nudge) })
	return one
}

// nudge has a program probed now and for a while more often.
func (p *probes) nudge(program string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, one := range p.by {
		if key.name == program {
			one.wake()
		}
	}
}

// hurry nudges all.
func (p *probes) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.by {
		one.wake()
	}
}

func (p *prober) wake() {
	select {
	case p.nudge <- struct{}{}:
	default:
	}
}

// end stops all, and waits until they have.
func (p *probes) end() {
	p.mu.Lock()
	for _, one := range p.by {
		one.stop()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// How often is probed: soon after a change, then ever more seldom, but not so
// seldom while something is wrong.
const (
	soonest      = 250 * time.Millisecond
	usually      = 30 * time.Second
	whileFailing = 5 * time.Second
)

// attend probes a program until ctx ends.
func (r *Registrar) attend(ctx context.Context, p *Program, nudge <-chan struct{}) {
	delay, failures := soonest, 0
	for ctx.Err() == nil {
		err := r.options.try(ctx, r.options.Client, p)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		case !unanswered(err):
			failures++
		}
		r.reached(p, err, failures)
		limit := usually
		if err != nil {
			limit = whileFailing
		}
		timer := r.options.Clock.NewTimer(min(delay, limit))
		select {
		case <-timer.C():
			delay = min(2*delay, usually)
		case <-nudge:
			delay, failures = soonest, 0
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// conclusive is how many probes must fail in a row: the first after a change may come
// before the API server knows of it.
const conclusive = 3

// reached tells what a probe has found out, if anything.
func (r *Registrar) reached(p *Program, err error, failures int) {
	reach, message := Reachable, ""
	switch {
	case err == nil:
	case failures < conclusive || unanswered(err):
		return
	case isUnreached(err) || errors.Is(err, errNotAsked):
		reach, message = Unreachable, err.Error()
	default:
		reach, message = ReachUnknown, "probe in the namespace "+r.options.Namespace+": "+err.Error()
	}
	r.update(p.Name, func(h *Health) { h.Reach, h.ReachMessage = reach, message })
}

// Package process keeps local programs running beside a cluster: started in a
// group of their own, restarted when they die or are told to, and never left
// behind, however this program ends.
//
// What a process is for, which files it is made of, and what a user is told
// are not known here. The dev loop calls it.
package process

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

// Output takes what a process writes. Flush is called when it has ended.
type Output interface {
	io.Writer
	Flush()
}

// Options configure a Process. Command, Output and Leash are required.
type Options struct {
	// Command is the program and its arguments.
	Command []string
	// Env is added to the environment of this program, as "KEY=value".
	Env []string
	// Dir is where it runs.
	Dir string
	// Prepare is called before each start, to compile what runs; nil for nothing. An
	// error keeps the process from starting until Restart is called.
	Prepare func(ctx context.Context) error
	// Port is where it will listen; 0 for a process that is ready once started.
	Port int
	// ReadyPath is asked over HTTP; empty means accepting connections is enough.
	ReadyPath string

	Output Output
	Reaper *Reaper
	// Notify is told of what happens, from one goroutine at a time.
	Notify func(Event)

	// Backoff is the wait before the first restart of a process that died by
	// itself; it doubles up to MaxBackoff. 250 ms and 10 s when zero.
	Backoff, MaxBackoff time.Duration
	// Grace is how long it may take to obey SIGTERM; 1 s when zero.
	Grace time.Duration
	// SlowAfter is how long it may take to listen before that is reported;
	// 10 s when zero.
	SlowAfter time.Duration
}

// backoffReset is how long a process must have lived for its death to be a new one.
const backoffReset = 10 * time.Second

// Event is what happened to a process: exactly one field but Took is set.
type Event struct {
	// Ready says that it can be used; Cause is why it was started again, empty
	// the first time.
	Ready bool
	Cause string
	Took  time.Duration

	// Slow says that it runs and does not answer yet, after Took.
	Slow bool

	// PrepareFailed is why it cannot be started before Restart is called.
	PrepareFailed error

	// Died is why it ended by itself; it is started again after Retry.
	Died  error
	Retry time.Duration
}

// Process is one supervised program.
type Process struct {
	options Options
	restart chan string

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed and replaced when state changes
}

// state is what callers that want to use the process need to know.
type state struct {
	ready bool
	down  error // why it is not even starting
	// failed is why it ended before; nil once it has answered since. That a process
	// without a port was started again proves nothing yet.
	failed error
}

// New makes a Process; Run starts it.
func New(o Options) *Process {
	o.Backoff = defaultDuration(o.Backoff, 250*time.Millisecond)
	o.MaxBackoff = defaultDuration(o.MaxBackoff, 10*time.Second)
	o.Grace = defaultDuration(o.Grace, time.Second)
	o.SlowAfter = defaultDuration(o.SlowAfter, 10*time.Second)
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	return &Process{options: o, restart: make(chan string, 1), changed: make(chan struct{})}
}

func defaultDuration(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Restart ends the process and starts it again; cause says why.
func (p *Process) Restart(cause string) {
	select {
	case p.restart <- cause:
	default: // One is on its way already.
	}
}

// Run keeps the process running until ctx is done; then nothing of it is left.
func (p *Process) Run(ctx context.Context) {
	wait, cause := p.options.Backoff, ""
	for {
		if err := p.prepare(ctx); err != nil {
			if cause = p.awaitRestart(ctx, err); ctx.Err() != nil {
				return
			}
			continue
		}
		began := time.Now()
		next, err := p.runOnce(ctx, cause)
		if ctx.Err() != nil {
			p.set(state{down: ctx.Err()})
			return
		}
		if cause = next; err == nil {
			wait = p.options.Backoff
			continue
		}
		if time.Since(began) > backoffReset {
			wait = p.options.Backoff
		}
		p.set(state{down: err, failed: err})
		p.options.Notify(Event{Died: err, Retry: wait})
		if next, asked := p.awaitBackoff(ctx, wait); asked {
			cause = next
		}
		wait = min(2*wait, p.options.MaxBackoff)
	}
}

func (p *Process) prepare(ctx context.Context) error {
	p.mu.Lock()
	failed := p.state.failed
	p.mu.Unlock()
	p.set(state{failed: failed})
	if p.options.Prepare == nil {
		return nil
	}
	return p.options.Prepare(ctx)
}

// awaitRestart waits for a reason to prepare the process again: the same files would
// only fail again.
func (p *Process) awaitRestart(ctx context.Context, err error) (cause string) {
	p.set(state{down: err, failed: err})
	if ctx.Err() != nil {
		return ""
	}
	p.options.Notify(Event{PrepareFailed: err})
	select {
	case cause = <-p.restart:
	case <-ctx.Done():
	}
	return cause
}

// awaitBackoff waits before a restart. Somebody who asks for one need not wait.
func (p *Process) awaitBackoff(ctx context.Context, wait time.Duration) (cause string, asked bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case cause = <-p.restart:
		return cause, true
	}
	return "", false
}

// runOnce starts the process and sees it to its end. It returns why the next one
// is to be started, and an error if this one ended without being told to.
func (p *Process) runOnce(ctx context.Context, cause string) (next string, err error) {
	began := time.Now()
	run, err := launch(launchOptions{
		command: p.options.Command, env: p.options.Env, dir: p.options.Dir,
		output: p.options.Output, reaper: p.options.Reaper,
	})
	if err != nil {
		return "could not be started", err
	}
	probing, stopProbing := context.WithCancel(ctx)
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		p.probe(probing, began, cause)
	}()
	defer func() {
		stopProbing()
		<-probed
	}()
	select {
	case <-run.exited:
		return "process ended", run.exit.err()
	case next = <-p.restart:
	case <-ctx.Done():
	}
	run.stop(syscall.SIGTERM, p.options.Grace)
	return next, nil
}

// probe waits until the process answers and says so. That it is slow is said before, or
// not at all.
func (p *Process) probe(ctx context.Context, began time.Time, cause string) {
	reported := make(chan struct{})
	slow := time.AfterFunc(p.options.SlowAfter, func() {
		defer close(reported)
		if ctx.Err() == nil {
			p.options.Notify(Event{Slow: true, Took: p.options.SlowAfter})
		}
	})
	answered := awaitReady(ctx, p.options.Port, p.options.ReadyPath)
	if !slow.Stop() {
		<-reported
	}
	if !answered {
		return
	}
	p.set(state{ready: true, failed: p.lastFailure()})
	p.options.Notify(Event{Ready: true, Cause: cause, Took: time.Since(began)})
}

// lastFailure is the former failure, if being started is all that is known of the process.
func (p *Process) lastFailure() error {
	if p.options.Port != 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.failed
}

func (p *Process) set(s state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	close(p.changed)
	p.changed = make(chan struct{})
}

// State says whether the process can be used, and how it failed the last time if it has
// not answered since.
func (p *Process) State() (ready bool, failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.ready, p.state.failed
}

// WaitReady waits for a process that is starting. It returns at once when the
// process is ready, or down and waiting to be started again.
func (p *Process) WaitReady(ctx context.Context) error {
	for {
		p.mu.Lock()
		now, changed := p.state, p.changed
		p.mu.Unlock()
		if now.ready || now.down != nil {
			return now.down
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until it answers: %w", context.Cause(ctx))
		}
	}
}

// Package process supervises local programs: each runs in a process group of its own, is
// restarted when it exits or on request, and is killed with this program, however that
// ends.
//
// It does not know what a process is for or how events are shown.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Output receives the output of a process. Flush is called when it has exited.
type Output interface {
	io.Writer
	Flush()
}

// Options configure a Supervisor. Command, Output and Reaper are required.
type Options struct {
	// Command is the program and its arguments.
	Command []string
	// Env extends the environment of this program, as "KEY=value".
	Env []string
	// Dir is the working directory.
	Dir string
	// Prepare is called before each start, to compile the program. After an error the
	// process is not started until Restart is called.
	Prepare func(ctx context.Context) error
	// Hopeless reports exit codes after which a restart without a change would end alike: the
	// process is not started until Restart is called. Nil means none.
	Hopeless func(code int) bool
	// Port is the port it listens on; 0 for a process that is ready once started.
	Port int
	// ReadyPath is probed over HTTP; "" waits only for a listener.
	ReadyPath string

	Output Output
	Reaper *Reaper
	// Notify is called with each event, never concurrently.
	Notify func(Event)

	// Backoff is the delay of the first restart after a crash; it doubles up to MaxBackoff.
	// The defaults are 250 ms and 10 s.
	Backoff, MaxBackoff time.Duration
	// Grace is the time between SIGTERM and SIGKILL; 1 s by default.
	Grace time.Duration
	// SlowAfter is when a process that does not listen is reported; 10 s by default.
	SlowAfter time.Duration
}

// backoffReset is the uptime after which the backoff starts over.
const backoffReset = 10 * time.Second

// Event is something that happened to a process. Exactly one field is set, besides Took,
// Cause and Retry.
type Event struct {
	// Ready reports that the process is ready; Cause is why it was restarted, "" for the
	// first start.
	Ready bool
	Cause string
	Took  time.Duration

	// Slow reports that it is running and not ready after Took.
	Slow bool

	// PrepareFailed is the error of Prepare; the process waits for Restart.
	PrepareFailed error

	// Died is why it exited; it is restarted after Retry, or if that is zero waits for Restart.
	Died  error
	Retry time.Duration
}

// Supervisor runs one program, again after each exit.
type Supervisor struct {
	options Options
	restart chan string

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed and replaced when the state changes
}

// state is the state for callers that use the process.
type state struct {
	ready bool
	down  error // why it is not running
	// failed is why it exited; nil once it was ready again. A restart of a process without
	// a port does not reset it.
	failed error
}

// New returns a Supervisor; Run starts it.
func New(o Options) *Supervisor {
	o.Backoff = cmp.Or(o.Backoff, 250*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 10*time.Second)
	o.Grace = cmp.Or(o.Grace, time.Second)
	o.SlowAfter = cmp.Or(o.SlowAfter, 10*time.Second)
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	return &Supervisor{options: o, restart: make(chan string, 1), changed: make(chan struct{})}
}

// Restart stops the process and starts it again; cause is for the event.
func (s *Supervisor) Restart(cause string) {
	select {
	case s.restart <- cause:
	default: // A restart is pending already.
	}
}

// Run supervises the process until ctx ends, and stops it.
func (s *Supervisor) Run(ctx context.Context) {
	wait, cause := s.options.Backoff, ""
	for ctx.Err() == nil {
		report, err := Event{}, s.prepare(ctx)
		if report.PrepareFailed = err; err == nil {
			began := time.Now()
			if cause, err = s.runOnce(ctx, cause); err == nil || time.Since(began) > backoffReset {
				wait = s.options.Backoff
			}
			exited, is := errors.AsType[*exitedError](err)
			hopeless := is && s.options.Hopeless != nil && s.options.Hopeless(exited.code)
			if report.Died = err; err != nil && !hopeless {
				report.Retry, wait = wait, min(2*wait, s.options.MaxBackoff)
			}
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		s.set(state{down: err, failed: err})
		s.options.Notify(report)
		cause = s.awaitRestart(ctx, report.Retry, cause)
	}
	s.set(state{down: ctx.Err()})
}

func (s *Supervisor) prepare(ctx context.Context) error {
	_, failed := s.State()
	s.set(state{failed: failed})
	if s.options.Prepare == nil {
		return nil
	}
	return s.options.Prepare(ctx)
}

// awaitRestart waits until Restart is called, whose cause it returns, or for a time; without one a start would fail again.
func (s *Supervisor) awaitRestart(ctx context.Context, after time.Duration, cause string) string {
	var elapsed <-chan time.Time
	if after > 0 {
		elapsed = time.After(after)
	}
	select {
	case cause = <-s.restart:
	case <-elapsed:
	case <-ctx.Done():
	}
	return cause
}

// runOnce runs the process until it exits or is stopped. It returns the cause of the next
// start, and an error if it exited by itself.
func (s *Supervisor) runOnce(ctx context.Context, cause string) (next string, err error) {
	began := time.Now()
	run, err := Command{
		Args: s.options.Command, Env: s.options.Env, Dir: s.options.Dir, Stdout: s.options.Output, Stderr: s.options.Output,
		Reaper: s.options.Reaper,
	}.Start()
	if err != nil {
		return "start failed", err
	}
	defer s.options.Output.Flush()
	probing, stopProbing := context.WithCancel(ctx)
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		s.probe(probing, began, cause)
	}()
	defer func() {
		stopProbing()
		<-probed
	}()
	select {
	case <-run.exited:
		return "process exited", run.exitError(s.nodeHint(ctx, run.code()))
	case next = <-s.restart:
	case <-ctx.Done():
	}
	run.Stop(syscall.SIGTERM, s.options.Grace)
	return next, nil
}

// probe waits until the process is ready and reports it, or that it is slow.
func (s *Supervisor) probe(ctx context.Context, began time.Time, cause string) {
	reported := make(chan struct{})
	slow := time.AfterFunc(s.options.SlowAfter, func() {
		defer close(reported)
		if ctx.Err() == nil {
			s.options.Notify(Event{Slow: true, Took: s.options.SlowAfter})
		}
	})
	answered := awaitReady(ctx, s.options.Port, s.options.ReadyPath)
	if !slow.Stop() {
		<-reported
	}
	if !answered {
		return
	}
	_, failed := s.State()
	if s.options.Port != 0 {
		failed = nil // It works.
	}
	s.set(state{ready: true, failed: failed})
	s.options.Notify(Event{Ready: true, Cause: cause, Took: time.Since(began)})
}

func (s *Supervisor) set(now state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = now
	close(s.changed)
	s.changed = make(chan struct{})
}

// State returns whether the process is ready, and its last failure if it has not been ready
// since.
func (s *Supervisor) State() (ready bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.ready, s.state.failed
}

// WaitReady waits for a process that is starting. It returns at once if the process is
// ready or down.
func (s *Supervisor) WaitReady(ctx context.Context) error {
	for {
		s.mu.Lock()
		now, changed := s.state, s.changed
		s.mu.Unlock()
		if now.ready || now.down != nil {
			return now.down
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until it is ready: %w", context.Cause(ctx))
		}
	}
}

const (
	// stripTypes is a flag that Node.js has since NodeWithTypes. An older one exits with nodeBadOption.
	stripTypes = "--experimental-strip-types"
	// NodeWithTypes is the oldest version of Node.js that runs TypeScript.
	NodeWithTypes = "22.6"
	nodeBadOption = 9
	// versionTimeout bounds `node --version`.
	versionTimeout = 5 * time.Second
)

// nodeHint says that Node.js is too old to run TypeScript, if a command exited for that; "" else.
func (s *Supervisor) nodeHint(ctx context.Context, code int) string {
	if code != nodeBadOption || !slices.Contains(s.options.Command, stripTypes) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	found := "another"
	if version, err := exec.CommandContext(ctx, s.options.Command[0], "--version").Output(); err == nil {
		found = strings.TrimSpace(string(version))
	}
	return fmt.Sprintf(": TypeScript needs Node.js %s or newer, and %s is %s", NodeWithTypes, s.options.Command[0], found)
}

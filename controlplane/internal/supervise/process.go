// Package supervise keeps one child process running: it sends its output to a file, restarts it
// with exponential backoff when it dies, and gives up with an error that names the process, its
// log and its last words.
//
// It knows nothing of Kubernetes: what to run is a Spec. Package controlplane is its only caller.
package supervise

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Spec says what to run.
type Spec struct {
	Name string
	Path string
	Args []string
	Env  []string // the whole environment of the child
	Dir  string   // its working directory
	Log  string   // the file that receives its output
	// Grace is how long it may take to end after SIGTERM before it is killed; zero kills at once.
	Grace time.Duration
	// Needs, if set, must succeed before each restart, so that a process does not use up
	// its restarts while a dependency is down.
	Needs func(context.Context) error
	// FirstDelay is that before the first restart; 100 ms if zero.
	FirstDelay time.Duration
}

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
	// settled is how long a run lasts that counts as a success, tries how many runs in a row may be shorter.
	settled = 3 * time.Second
	tries   = 6
	// needsInterval is the time between two calls of Needs; one call may take ten times as long.
	needsInterval = 100 * time.Millisecond
)

// Process is a supervised child.
type Process struct {
	spec   Spec
	reaper *process.Reaper
	log    *slog.Logger

	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed

	mu       sync.Mutex
	run      *process.Running
	restarts int
}

// Start runs the child for the first time and keeps it running until Stop. An
// error means that it could not be executed at all.
func Start(spec Spec, reaper *process.Reaper, log *slog.Logger) (*Process, error) {
	spec.FirstDelay = cmp.Or(spec.FirstDelay, firstDelay)
	p := &Process{spec: spec, reaper: reaper, log: log.With("component", spec.Name), done: make(chan struct{})}
	run, err := p.launch()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.run, p.cancel = run, cancel
	go p.supervise(ctx, run)
	return p, nil
}

// Name is the name given in the Spec.
func (p *Process) Name() string { return p.spec.Name }

// Log is the path of the file that receives the child's output.
func (p *Process) Log() string { return p.spec.Log }

// State returns the child's process ID, 0 between two runs, and the number of runs after the first.
func (p *Process) State() (pid, restarts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.run.Exited():
		return 0, p.restarts
	default:
		return p.run.PID(), p.restarts
	}
}

// Done is closed when the child has stopped for good.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says, after Done, why the child was given up; nil after Stop.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop ends the child, with SIGKILL once its grace is over, and waits for it.
func (p *Process) Stop(ctx context.Context) error {
	p.cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", p.spec.Name, ctx.Err())
	}
}

func (p *Process) launch() (*process.Running, error) {
	output, err := os.OpenFile(p.spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", p.spec.Name, err)
	}
	defer output.Close() // the child has its own copy
	return process.Command{
		Args: append([]string{p.spec.Path}, p.spec.Args...), Env: p.spec.Env, OnlyEnv: true, Dir: p.spec.Dir,
		Stdout: output, Stderr: output, Reaper: p.reaper,
	}.Start()
}

// supervise restarts the process until the context ends or it gives up.
func (p *Process) supervise(ctx context.Context, run *process.Running) {
	defer close(p.done)
	began, delay := time.Now(), p.spec.FirstDelay
	for short := 1; p.err == nil; short++ {
		select {
		case <-run.Exited():
		case <-ctx.Done():
			run.Stop(syscall.SIGTERM, p.spec.Grace)
			return
		}
		if time.Since(began) >= settled {
			short, delay = 1, p.spec.FirstDelay
		}
		if short >= tries {
			p.err = fmt.Errorf("%s keeps ending (%w); its log is %s, which ends:\n%s",
				p.spec.Name, run.Err(), p.spec.Log, Tail(p.spec.Log))
			return
		}
		p.log.Warn("component ended, restarting it", "exit", run.Err().Error(), "delay", delay)
		if !p.awaitRestart(ctx, delay) {
			return
		}
		began, delay = time.Now(), min(2*delay, maxDelay)
		if run, p.err = p.launch(); p.err == nil {
			p.restarted(run)
		}
	}
}

func (p *Process) restarted(run *process.Running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = run
	p.restarts++
}

// awaitRestart waits for the backoff and the dependencies of the child; it returns false when stopped.
func (p *Process) awaitRestart(ctx context.Context, delay time.Duration) bool {
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return false
	}
	return p.spec.Needs == nil || wait.PollUntilContextCancel(ctx, needsInterval, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*needsInterval)
		defer cancel()
		return p.spec.Needs(ctx) == nil, nil
	}) == nil
}

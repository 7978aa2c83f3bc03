// Package supervise keeps one child process running: it starts it, sends its
// output to a file, restarts it with exponential backoff when it dies, and
// gives up with an error that names the process, its log and its last words.
//
// It knows nothing of Kubernetes: what to run is a Spec. Package controlplane
// is its only caller.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/lifeline"
)

// Spec says what to run.
type Spec struct {
	Name string
	Path string
	Args []string
	Env  []string // the whole environment of the child
	Dir  string   // its working directory
	Log  string   // the file that receives its output
	// Grace is how long it may take to end after SIGTERM before it is killed.
	// Zero kills at once: right for a process that has nothing to put in order.
	Grace time.Duration
	// Needs, if set, must succeed before each restart, so that a process does not use up
	// its restarts while a dependency is down.
	Needs  func(context.Context) error
	Policy Policy
}

// needsInterval is the time between two calls of Needs; one call may take ten times as
// long.
const needsInterval = 100 * time.Millisecond

// Process is a supervised child.
type Process struct {
	spec Spec
	line *lifeline.Line
	log  *slog.Logger

	stop     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	err      error // set before done is closed

	mu       sync.Mutex
	pid      int
	restarts int
}

// Start runs the child for the first time and keeps it running until Stop. An
// error means that it could not be executed at all.
func Start(spec Spec, line *lifeline.Line, log *slog.Logger) (*Process, error) {
	p := &Process{
		spec: spec,
		line: line,
		log:  log.With("component", spec.Name),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	run, err := p.launch()
	if err != nil {
		return nil, err
	}
	go p.supervise(run)
	return p, nil
}

// Name is the name given in the Spec.
func (p *Process) Name() string { return p.spec.Name }

// Log is the path of the file that receives the child's output.
func (p *Process) Log() string { return p.spec.Log }

// PID is the child's process id, 0 between two runs.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Restarts counts the runs after the first.
func (p *Process) Restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.restarts
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
	p.stopOnce.Do(func() { close(p.stop) })
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", p.spec.Name, ctx.Err())
	}
}

// run is one life of the child.
type run struct {
	cmd   *exec.Cmd
	since time.Time
	ended chan error
}

func (p *Process) launch() (*run, error) {
	output, err := os.OpenFile(p.spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", p.spec.Name, err)
	}
	defer output.Close() // the child has its own copy

	cmd := exec.Command(p.spec.Path, p.spec.Args...)
	cmd.Dir = p.spec.Dir
	cmd.Env = append(p.spec.Env[:len(p.spec.Env):len(p.spec.Env)], lifeline.Variable(3))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{p.line.File()} // the first of these is descriptor 3
	// A group of its own keeps the terminal's Ctrl-C away: the parent decides
	// on the order in which things end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.spec.Name, err)
	}
	p.setPID(cmd.Process.Pid)
	p.log.Debug("component started", "pid", cmd.Process.Pid)

	r := &run{cmd: cmd, since: time.Now(), ended: make(chan error, 1)}
	go func() { r.ended <- cmd.Wait() }()
	return r, nil
}

// supervise restarts the process until Stop is called or it gives up.
func (p *Process) supervise(r *run) {
	defer close(p.done)
	streak := restartStreak{policy: p.spec.Policy.withDefaults()}
	for {
		exit, stopped := p.waitRun(r)
		if stopped {
			return
		}
		delay, again := streak.ended(time.Since(r.since))
		if !again {
			p.err = p.givenUp(exit)
			return
		}
		p.log.Warn("component ended, restarting it", "exit", exit.Error(), "delay", delay)
		if !p.pause(delay) || !p.awaitNeeds() {
			return
		}
		next, err := p.launch()
		if err != nil {
			p.err = err
			return
		}
		p.countRestart()
		r = next
	}
}

// waitRun waits for the end of a run, or stops it.
func (p *Process) waitRun(r *run) (exit error, stopped bool) {
	defer p.setPID(0)
	select {
	case exit = <-r.ended:
		if exit == nil {
			exit = errors.New("exit status 0")
		}
		return exit, false
	case <-p.stop:
		p.end(r)
		return nil, true
	}
}

func (p *Process) end(r *run) {
	if p.spec.Grace > 0 {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		grace := time.NewTimer(p.spec.Grace)
		defer grace.Stop()
		select {
		case <-r.ended:
			return
		case <-grace.C:
			p.log.Debug("component killed after its grace", "grace", p.spec.Grace)
		}
	}
	_ = r.cmd.Process.Kill()
	<-r.ended
}

// pause waits for the backoff; it returns false when stopped.
func (p *Process) pause(delay time.Duration) (elapsed bool) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.stop:
		return false
	}
}

// awaitNeeds waits for the dependencies of the child; it returns false when stopped.
func (p *Process) awaitNeeds() (met bool) {
	for p.spec.Needs != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*needsInterval)
		err := p.spec.Needs(ctx)
		cancel()
		if err == nil {
			break
		}
		if !p.pause(needsInterval) {
			return false
		}
	}
	return true
}

func (p *Process) setPID(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid = pid
}

func (p *Process) countRestart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restarts++
}

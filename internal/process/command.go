package process

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command is a program that runs once, with the terminal passed on to it.
type Command struct {
	Args []string
	// Env extends the environment of this program, or is all there is.
	Env     []string
	OnlyEnv bool
	// Dir is the working directory.
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Reaper         *Reaper
	// Interactive keeps the command in our process group, so that it can read from the
	// terminal and gets Ctrl-C.
	Interactive bool
	// KillDetached kills also processes that have left the group of the command, once it has exited. They are
	// found on Linux only.
	KillDetached bool
	// Grace is the time between the signal and SIGKILL; 1 s by default.
	Grace time.Duration
}

// markVariable has a value of its own in the environment of each command with KillDetached, and so in those of all
// processes that it starts.
const markVariable = "SETPOINT_PROCESS"

// Exit codes of a shell for commands that cannot run.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// StopSignal is a cause of cancellation: a signal, which is passed on.
type StopSignal syscall.Signal

func (s StopSignal) Error() string { return fmt.Sprintf("stopped by signal (%s)", syscall.Signal(s)) }

// Run runs the command and returns its exit code, 128 + n after signal n. When ctx ends the
// command gets the signal of the cause, or SIGTERM. An error means that it could not be
// started.
func (c Command) Run(ctx context.Context) (int, error) {
	r, err := c.Start()
	if err != nil {
		return codeOf(err), err
	}
	select {
	case <-r.exited:
	case <-ctx.Done():
		r.Stop(signalOf(context.Cause(ctx)), cmp.Or(c.Grace, time.Second))
	}
	return r.code(), nil
}

// Start starts the command.
func (c Command) Start() (*Running, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	if !c.OnlyEnv {
		cmd.Env = append(os.Environ(), c.Env...)
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // Nil would be the environment of this program.
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	exited := func() {}
	if c.KillDetached {
		mark := markVariable + "=" + rand.Text()
		cmd.Env, exited = append(cmd.Env, mark), func() { killMarked(mark) }
	}
	r, err := c.Reaper.launch(cmd, !c.Interactive, exited)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	return r, nil
}

func signalOf(cause error) syscall.Signal {
	if stop, ok := errors.AsType[StopSignal](cause); ok {
		return syscall.Signal(stop)
	}
	return syscall.SIGTERM
}

func codeOf(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeNotExecutable
}

const (
	// childGrace is how long children may write after their parent has exited, before they are killed.
	childGrace = 300 * time.Millisecond
	// outputTimeout bounds reading what is left then: a child that has left the group may keep the output open. It is long
	// because a reader is late on a busy machine.
	outputTimeout = 5 * time.Second
)

// Running is a started program with its children.
type Running struct {
	target target
	pid    int
	// gone is closed when the program has exited and its children are killed, exited when their output is written too.
	gone, exited chan struct{}
	ended        *os.ProcessState // valid once exited is closed
}

// PID is the process ID of the program.
func (r *Running) PID() int { return r.pid }

// Exited is closed when the program has exited and its output is written.
func (r *Running) Exited() <-chan struct{} { return r.exited }

// Err is how a program exited that should keep running. It is valid once Exited is closed.
func (r *Running) Err() error { return r.exitError("") }

// CPU is the processor time that the program used. It is valid once Exited is closed.
func (r *Running) CPU() time.Duration { return r.ended.UserTime() + r.ended.SystemTime() }

// Kill kills the program and its children. It does not wait until they have exited.
func (r *Running) Kill() { r.signal(syscall.SIGKILL) }

func (r *Running) signal(sig syscall.Signal) {
	select {
	case <-r.gone: // The PID may be that of another process by now.
	default:
		r.target.kill(sig)
	}
}

// launch starts a program, in a process group of its own if ownGroup is set. It calls exited when the program has
// exited, before all its output is written.
func (l *Reaper) launch(cmd *exec.Cmd, ownGroup bool, exited func()) (*Running, error) {
	cmd.WaitDelay = childGrace + outputTimeout
	target, err := l.start(cmd, ownGroup)
	if err != nil {
		return nil, err
	}
	r := &Running{target: target, pid: cmd.Process.Pid, gone: make(chan struct{}), exited: make(chan struct{})}
	go func() {
		defer close(r.exited)
		r.ended, _ = cmd.Process.Wait()
		written := make(chan struct{})
		go func() {
			defer close(written)
			_ = cmd.Wait() // The process is gone: this waits for the output alone.
		}()
		select {
		case <-written:
		case <-time.After(childGrace):
		}
		r.killChildren(l)
		close(r.gone)
		exited()
		<-written
	}()
	return r, nil
}

// killChildren kills what is left of the program's group.
func (r *Running) killChildren(reaper *Reaper) {
	if r.target < 0 { // It is a group. The PID of a single process may be reused.
		r.target.kill(syscall.SIGKILL)
	}
	reaper.release(r.target)
}

// Stop sends a signal and, after grace, SIGKILL, and waits until the program has exited.
func (r *Running) Stop(sig syscall.Signal, grace time.Duration) {
	r.signal(sig)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-r.exited:
		return
	case <-timer.C:
	}
	r.Kill()
	<-r.exited
}

// code returns the exit code as a shell reports it.
func (r *Running) code() int {
	if status, ok := r.ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return r.ended.ExitCode()
}

// exitedError is the exit of a program that should keep running.
type exitedError struct {
	text string
	code int
}

func (e *exitedError) Error() string { return e.text }

// exitError describes the exit of a program that should keep running, with a hint.
func (r *Running) exitError(hint string) error {
	text := fmt.Sprintf("exited with code %d", r.ended.ExitCode())
	if status, ok := r.ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		text = fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	} else if r.ended.ExitCode() == 0 {
		text = "exited with code 0, but it should keep running"
	}
	return &exitedError{text + hint, r.code()}
}

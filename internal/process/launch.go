package process

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

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
	state        *os.ProcessState // valid once exited is closed
}

// PID is the process ID of the program.
func (r *Running) PID() int { return r.pid }

// Exited is closed when the program has exited and its output is written.
func (r *Running) Exited() <-chan struct{} { return r.exited }

// Err is how a program exited that should keep running. It is valid once Exited is closed.
func (r *Running) Err() error { return r.err("") }

// CPU is the processor time that the program used. It is valid once Exited is closed.
func (r *Running) CPU() time.Duration { return r.state.UserTime() + r.state.SystemTime() }

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
		r.state, _ = cmd.Process.Wait()
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

// target is an argument of kill(2): a process, or negative for a group.
type target int

func group(leader int) target { return target(-leader) }

// leader returns the PID of a group's leader.
func (t target) leader() int { return -int(t) }

func (t target) kill(sig syscall.Signal) { _ = syscall.Kill(int(t), sig) }

// code returns the exit code as a shell reports it.
func (r *Running) code() int {
	if status, ok := r.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return r.state.ExitCode()
}

// exitedError is the exit of a program that should keep running.
type exitedError struct {
	text string
	code int
}

func (e *exitedError) Error() string { return e.text }

// err describes the exit of a program that should keep running, with a hint.
func (r *Running) err(hint string) error {
	text := fmt.Sprintf("exited with code %d", r.state.ExitCode())
	if status, ok := r.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		text = fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	} else if r.state.ExitCode() == 0 {
		text = "exited with code 0, but it should keep running"
	}
	return &exitedError{text + hint, r.code()}
}

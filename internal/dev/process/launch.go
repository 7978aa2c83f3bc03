package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// outputTimeout is how long the output of an ended process is still read, should
// something that left its group hold on to it.
const outputTimeout = 300 * time.Millisecond

type launchOptions struct {
	command []string
	env     []string
	dir     string
	output  Output
	reaper  *Reaper
}

// running is a started program and all it started itself.
type running struct {
	target target
	exited chan struct{}
	exit   exit // valid when exited is closed
}

// exit is how a program ended.
type exit struct{ state *os.ProcessState }

// launch starts a program in a process group of its own, with its output in one
// stream.
func launch(o launchOptions) (*running, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	cmd := exec.Command(o.command[0], o.command[1:]...)
	cmd.Dir, cmd.Env = o.dir, append(os.Environ(), o.env...)
	cmd.Stdout, cmd.Stderr = write, write
	target, err := o.reaper.start(cmd, true)
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start: %w", err)
	}
	r := &running{target: target, exited: make(chan struct{})}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(o.output, read)
	}()
	go func() {
		r.await(cmd, o.reaper)
		_ = read.SetReadDeadline(time.Now().Add(outputTimeout))
		<-copied
		read.Close()
		o.output.Flush()
		close(r.exited)
	}()
	return r, nil
}

// await sees the program to its end, and what it started with it.
func (r *running) await(cmd *exec.Cmd, reaper *Reaper) {
	_ = cmd.Wait() // What there is to know is in the state.
	r.exit = exit{cmd.ProcessState}
	if r.target.isGroup() { // A number of one reaped process may be another's by now.
		r.target.kill(syscall.SIGKILL)
	}
	reaper.release(r.target)
}

// stop asks for an end and, after grace, forces it.
func (r *running) stop(sig syscall.Signal, grace time.Duration) {
	r.target.kill(sig)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-r.exited:
		return
	case <-timer.C:
	}
	r.target.kill(syscall.SIGKILL)
	<-r.exited
}

// target is what kill(2) is told: a process, or negative for a group.
type target int

func group(leader int) target { return target(-leader) }

func (t target) isGroup() bool { return t < 0 }

// leader is the number of a group.
func (t target) leader() int { return -int(t) }

func (t target) kill(sig syscall.Signal) { _ = syscall.Kill(int(t), sig) }

// code is the exit code as a shell gives it.
func (e exit) code() int {
	if status, ok := e.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return e.state.ExitCode()
}

// err says how the program ended; it is for programs that should not have.
func (e exit) err() error {
	if status, ok := e.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Errorf("killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	if e.state.ExitCode() == 0 {
		return errors.New("ended with exit code 0 although it should keep running")
	}
	return fmt.Errorf("ended with exit code %d", e.state.ExitCode())
}

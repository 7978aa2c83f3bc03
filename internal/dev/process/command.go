package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command is a program that is run once, with the terminal passed on to it.
type Command struct {
	Args []string
	// Env is added to the environment of this program.
	Env []string
	// Dir is where it runs; here if empty.
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Reaper         *Reaper
	// Interactive leaves the command in our own process group, so that it may
	// read from the terminal and gets Ctrl-C from it.
	Interactive bool
	// Grace is how long it may take to obey the signal; 1 s when zero.
	Grace time.Duration
}

// Exit codes of a shell for what cannot be run.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// StopSignal is a cause of cancellation that says which signal to pass on.
type StopSignal interface {
	error
	StopSignal() syscall.Signal
}

// Run runs the command to its end and returns its exit code, 128 + n when
// signal n ended it. When ctx is done the command gets the signal that is the
// cause, else SIGTERM. An error means that it could not be run.
func (c Command) Run(ctx context.Context) (int, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir = append(os.Environ(), c.Env...), c.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.WaitDelay = outputTimeout
	target, err := c.Reaper.start(cmd, !c.Interactive)
	if err != nil {
		return codeOf(err), fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	r := &running{target: target, exited: make(chan struct{})}
	go func() {
		r.await(cmd, c.Reaper)
		close(r.exited)
	}()
	select {
	case <-r.exited:
	case <-ctx.Done():
		r.stop(signalOf(context.Cause(ctx)), defaultDuration(c.Grace, time.Second))
	}
	return r.exit.code(), nil
}

func signalOf(cause error) syscall.Signal {
	if stop, ok := errors.AsType[StopSignal](cause); ok {
		return stop.StopSignal()
	}
	return syscall.SIGTERM
}

func codeOf(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeNotExecutable
}

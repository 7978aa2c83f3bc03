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

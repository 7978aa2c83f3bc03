package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// child is one process. One goroutine at a time uses it.
type child struct {
	conn   *Conn
	stderr *stderr
	run    *process.Running

	started time.Time
	// generation is that of the pool at the start.
	generation int
	// calls counts calls, for programs that never respond.
	calls     int
	idleSince time.Time
	idleTimer *time.Timer
	// killed is why it was killed.
	killed atomic.Pointer[error]
}

// startChild starts a process with pipes.
func startChild(config *Config, budget *lineBudget) (*child, error) {
	if config.Check != nil {
		if err := config.Check(); err != nil {
			return nil, &StartError{err}
		}
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	defer stdout.Close()
	lines := &stderr{log: config.Log, budget: budget, quiet: config.QuietStderr, ready: make(chan struct{})}
	conn := &Conn{in: in, out: out, reader: bufio.NewReaderSize(out, readBuffer), log: lines.write}
	one := &child{conn: conn, stderr: lines, started: time.Now()}
	command := config.Command
	command.Stdin, command.Stdout, command.Stderr = stdin, stdout, one.stderr
	if one.run, err = command.Start(); err != nil {
		one.closePipes()
		return nil, &StartError{err}
	}
	return one, nil
}

func (c *child) closePipes() {
	c.conn.in.Close()
	c.conn.out.Close()
}

// do makes a call. The limit of time, and the end of ctx, kill the process.
func (c *child) do(ctx context.Context, limits Call, exchange func(*Conn) error) error {
	c.calls++
	c.stderr.begin(&limits)
	c.conn.budget = limits.MaxBytes
	timer := time.AfterFunc(limits.Timeout, func() { c.kill(&TimeoutError{limits.Timeout}) })
	stop := context.AfterFunc(ctx, func() { c.kill(context.Cause(ctx)) })
	err := exchange(c.conn)
	c.stderr.catchUp()
	timer.Stop()
	stop()
	switch {
	case err == nil && c.conn.reader.Buffered() > 0:
		return errMoreLines // The next call would read them.
	case err == nil:
		return nil
	case c.isKilled():
		return *c.killed.Load()
	case errors.Is(err, errEnd), errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed): // The process closed its streams.
		return c.exitError()
	}
	return err
}

// exitError is the error of a process that exited in a call.
func (c *child) exitError() error {
	timer := time.AfterFunc(endGrace, c.run.Kill) // It may have closed its output only.
	defer timer.Stop()
	<-c.run.Exited()
	head, tail := c.stderr.ends()
	return &ExitError{Err: c.run.Err(), First: head, Last: tail}
}

// check reports why an idle child cannot be used.
func (c *child) check() error {
	select {
	case <-c.run.Exited():
		return errEnd
	default:
		return c.conn.checkSilent()
	}
}

// kill kills the process. Nothing blocks on its pipes any more, even if a process that left its
// group has them open.
func (c *child) kill(cause error) {
	c.killed.CompareAndSwap(nil, &cause)
	c.run.Kill()
	past := time.Unix(1, 0)
	_ = c.conn.in.SetWriteDeadline(past)
	_ = c.conn.out.SetReadDeadline(past)
}

func (c *child) isKilled() bool { return c.killed.Load() != nil }

// end lets the process exit by itself, which it does when its input ends.
func (c *child) end() {
	if c.idleTimer != nil {
		c.idleTimer.Stop()
	}
	c.conn.in.Close()
	time.AfterFunc(endGrace, c.run.Kill)
}

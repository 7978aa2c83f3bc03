// Package lifeline ties the life of child processes to the life of their
// parent, whatever way the parent dies.
//
// The parent holds the writing end of a pipe and hands the reading end to each
// child. Nothing is ever written: when the parent is gone, even by SIGKILL, the
// kernel closes its end and the children read end-of-file. Unlike Linux's
// parent-death signal this works on every Unix, and it is tied to the process,
// not to the thread that happened to start the child.
//
// Package supervise hands the line out; package components holds on to it.
// Nothing here knows what the children do.
package lifeline

import (
	"fmt"
	"io"
	"os"
	"strconv"
)

// variable names the environment variable in which a child finds the number of
// its inherited file descriptor.
const variable = "SETPOINT_LIFELINE_FD"

// Line is the parent's end. The zero value is not usable; see New.
type Line struct {
	read, write *os.File
}

// New opens a line. It lives until Close or until the process ends.
func New() (*Line, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open lifeline: %w", err)
	}
	return &Line{read: read, write: write}, nil
}

// File is what a child inherits.
func (l *Line) File() *os.File { return l.read }

// Variable is the environment entry that tells a child which of its inherited
// descriptors is the line.
func Variable(fd int) string { return variable + "=" + strconv.Itoa(fd) }

// Close cuts the line: every child still holding it ends.
func (l *Line) Close() {
	_ = l.write.Close()
	_ = l.read.Close()
}

// Watch calls onCut, from another goroutine, when the parent of this process is
// gone. It does nothing in a process that was started without a line.
func Watch(onCut func()) {
	fd, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return
	}
	line := os.NewFile(uintptr(fd), "lifeline")
	if line == nil {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, line)
		onCut()
	}()
}

package inline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// Error is a failed call of a function.
type Error struct {
	// Function is empty if it is the default one of the hook, which the caller names.
	Function string
	// Place is the field and the position where the function failed, as compile errors have it; empty if it is not known.
	Place string
	// Line is the line of the source where the function failed; empty if it is not known.
	Line string
	Err  error
}

// Error is text such as "inline (spec.hooks.sync.inline.source:12:5): TypeError: …".
func (e *Error) Error() string {
	text := "inline"
	if e.Function != "" {
		text += " " + e.Function
	}
	thrown, is := errors.AsType[*script.Error](e.Err)
	if !is {
		return fmt.Sprintf("%s: %v", text, e.Err)
	}
	if e.Place != "" {
		text += " (" + e.Place + ")"
	}
	return text + ": " + thrown.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Fault classifies the error for user interfaces.
func (e *Error) Fault() *failure.Fault {
	thrown, is := errors.AsType[*script.Error](e.Err)
	switch {
	case !is:
		return &failure.Fault{Kind: child.FaultKind(e.Err)}
	case thrown.Limit == script.TimeLimit:
		return &failure.Fault{Kind: failure.HookTimeout, Place: e.Place, Line: e.Line}
	}
	return &failure.Fault{Kind: failure.HookFailed, Place: e.Place, Line: e.Line}
}

// placeOf returns where the code failed.
func (p *program) placeOf(e *script.Error) string {
	if p.place == nil || e.File == "" {
		return e.Place()
	}
	return p.place(e.File) + (&call.SourceError{Line: e.Line, Column: e.Column}).Position()
}

const maxLineBytes = 120

// lineOf returns the line of the source that an error is about.
func (p *program) lineOf(e *script.Error) string {
	lines := strings.Split(p.sources[e.File], "\n")
	if e.Line < 1 || e.Line > len(lines) {
		return ""
	}
	return call.Quote(lines[e.Line-1], maxLineBytes)
}

// messageOf returns the message of an error, or the limit that was exceeded.
func (p *program) messageOf(e *script.Error, timeout time.Duration) string {
	switch {
	case e.Limit == "":
		return e.Message
	case e.Limit == script.TimeLimit:
		return (&child.TimeoutError{After: timeout}).Error()
	case strings.HasPrefix(e.Limit, "memory"): // The engine's own limit is a first fence.
		return (&limitError{formatMemory(p.memory)}).Error()
	}
	return (&limitError{e.Limit}).Error()
}

// limitError means that a child ended because the code exceeded a limit of the process.
type limitError struct{ limit string }

func (e *limitError) Error() string { return "exceeded the limit of " + e.limit }

// exceeded returns the limit that Go's runtime reported when it ended a child; nil for other errors.
func (p *program) exceeded(err error) error {
	exit, is := errors.AsType[*child.ExitError](err)
	if !is {
		return nil
	}
	text := strings.Join(exit.First, "\n")
	contains := func(message string) bool { return strings.Contains(text, message) }
	switch {
	case contains("stack overflow"), contains("stack exceeds"):
		return &limitError{"the depth of calls"}
	case slices.ContainsFunc(memoryMessages, contains):
		return &limitError{formatMemory(p.memory)}
	}
	return nil
}

// memoryMessages are those of Go's runtime, the C library of QuickJS and the race detector, when the operating system gives no
// more memory.
var memoryMessages = []string{
	"out of memory", "cannot allocate memory", "cannot map pages", "failed to create new OS thread", "failed to allocate",
	"address space collisions", "OOM",
	// Not a panic: the garbage collector got no memory for itself.
	"SIGSEGV: segmentation violation\nPC=",
}

func formatMemory(bytes int64) string { return fmt.Sprintf("%d MiB of memory", bytes>>20) }

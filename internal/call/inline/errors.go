package inline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// Error is a failed call of a function.
type Error struct {
	Function string
	Err      error
}

// Error is text such as "inline sync (sync.js:12:5): TypeError: …".
func (e *Error) Error() string {
	if thrown, is := errors.AsType[*script.Error](e.Err); is {
		if place := thrown.Place(); place != "" {
			return fmt.Sprintf("inline %s (%s): %s", e.Function, place, thrown.Message)
		}
		return fmt.Sprintf("inline %s: %s", e.Function, thrown.Message)
	}
	return fmt.Sprintf("inline %s: %v", e.Function, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Fault classifies the error for user interfaces.
func (e *Error) Fault() *failure.Fault { return &failure.Fault{Kind: child.FaultKind(e.Err)} }

// Wrap implements call.Transport.
func (f *function) Wrap(_ call.HookType, err error) error { return &Error{f.name, err} }

// messageOf returns the message of an error, or the limit that was exceeded.
func (p *program) messageOf(e *script.Error) string {
	switch {
	case e.Limit == "":
		return e.Message
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
	"out of memory", "cannot allocate memory", "cannot map pages", "failed to create new OS thread", "failed to allocate", "OOM",
}

func formatMemory(bytes int64) string { return fmt.Sprintf("%d MiB of memory", bytes>>20) }

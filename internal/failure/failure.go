// Package failure classifies errors for users of Kubernetes: by the reason of an event
// or condition, by source, and as a single line of text.
//
// Package hook defines whether an error is retried.
package failure

import (
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
)

// classified is an error with its reason or source.
type classified[T ~string] struct {
	error

	as T
}

func (c *classified[T]) Unwrap() error { return c.error }

// WithReason sets the reason of the error's event.
func WithReason(reason string, err error) error { return &classified[string]{err, reason} }

// Reason returns the outermost reason of err, or fallback if it has none.
func Reason(err error, fallback string) string {
	if c, is := errors.AsType[*classified[string]](err); is {
		return c.as
	}
	return fallback
}

// Source is the user's code that caused an error.
type Source string

// The sources.
const (
	Hook    Source = "hook"
	Handler Source = "handler"
)

// WithSource attributes err, and all it wraps, to source. It returns nil if err is nil.
func WithSource(source Source, err error) error {
	if err == nil {
		return nil
	}
	return &classified[Source]{err, source}
}

// SourceOf returns the source of err, or "" if no user code caused it.
func SourceOf(err error) Source {
	if c, is := errors.AsType[*classified[Source]](err); is {
		return c.as
	}
	return ""
}

// maxMessage limits the bytes of a message, which may quote whole responses; a condition holds at most 32 KiB.
const maxMessage = 1000

// OneLine returns the error as a single line, because tables show only the first one.
func OneLine(err error) string {
	return Truncate(strings.ReplaceAll(err.Error(), "\n", "; "), maxMessage)
}

// Truncate returns at most limit bytes of a text that a hook or a user chose. It keeps no reference to a longer one.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// Text returns the text of an error; "" for nil.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// panicError is a panic or a call of runtime.Goexit.
type panicError struct {
	text  string
	stack string
}

func (c *panicError) Error() string { return c.text }

// Recover runs user code and converts a panic to an error; what names the code, such as "the handler". It does the same
// for runtime.Goexit, which t.FailNow calls. That ends its goroutine, so do runs on another one. See [PanicStack].
func Recover(what string, do func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			switch value := recover(); {
			case value != nil:
				err = FromPanic(what+" panicked", value)
			case !returned:
				err = &panicError{what + " called runtime.Goexit, as t.FailNow does: return an error instead", string(debug.Stack())}
			}
		}()
		err = do()
		returned = true
	}()
	<-done
	return err
}

// FromPanic converts a recovered value to an error. Call it in the deferred function, which has the stack of the panic.
func FromPanic(text string, value any) error {
	return &panicError{fmt.Sprintf("%s: %v", text, value), string(debug.Stack())}
}

// PanicStack returns the stack of a recovered panic or Goexit, and reports whether err is one.
func PanicStack(err error) (stack string, is bool) {
	c, is := errors.AsType[*panicError](err)
	if !is {
		return "", false
	}
	return c.stack, true
}

// IsPanic reports whether err is a recovered panic or Goexit.
func IsPanic(err error) bool {
	_, is := PanicStack(err)
	return is
}

// ErrNotFound is wrapped by errors about unknown kinds, objects, controllers and runs.
var ErrNotFound = errors.New("not found")

// release is the version of a release, which has a tag. Builds of other commits have more in theirs.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`)

// Page returns the address of what the documentation of a version says about a reason: what it means, and what to do.
// A version that is not released has that of the main branch. Reasons of others, such as hooks, have no page: "".
func Page(reason, version string) string {
	if !documented(reason) {
		return ""
	}
	if !release.MatchString(version) {
		version = "main"
	}
	return "https://github.com/setpoint-dev/setpoint/blob/" + version + "/docs/glossary.md#" + strings.ToLower(reason)
}

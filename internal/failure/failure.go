// Package failure classifies errors for users of Kubernetes: by the reason of an event
// or condition, by source, and as a single line of text.
//
// Package hook defines whether an error is retried.
package failure

import (
	"errors"
	"strings"
)

type reasonError struct {
	reason string
	err    error
}

func (r *reasonError) Error() string { return r.err.Error() }
func (r *reasonError) Unwrap() error { return r.err }

// WithReason sets the reason of the error's event.
func WithReason(reason string, err error) error { return &reasonError{reason: reason, err: err} }

// Reason returns the outermost reason of err, or fallback if it has none.
func Reason(err error, fallback string) string {
	if r, ok := errors.AsType[*reasonError](err); ok {
		return r.reason
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

type sourceError struct {
	source Source
	err    error
}

func (b *sourceError) Error() string { return b.err.Error() }
func (b *sourceError) Unwrap() error { return b.err }

// WithSource attributes err, and all it wraps, to source. It returns nil if err is nil.
func WithSource(source Source, err error) error {
	if err == nil {
		return nil
	}
	return &sourceError{source: source, err: err}
}

// SourceOf returns the source of err, or "" if no user code caused it.
func SourceOf(err error) Source {
	if b, ok := errors.AsType[*sourceError](err); ok {
		return b.source
	}
	return ""
}

// maxMessage limits the bytes of a message, which may quote responses of hooks and the
// API server; a condition holds at most 32 KiB.
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

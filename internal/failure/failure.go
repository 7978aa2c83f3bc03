// Package failure is how an error is told to those who use Kubernetes: with the
// reason that an event or a condition carries, with who is to blame, and in one line.
//
// What an error means for the next attempt is no business of it: package hook says
// so of what hooks and handlers answer. All rooms that tell failures may import it.
package failure

import (
	"errors"
	"strings"
)

// reasonError is an error with its reason.
type reasonError struct {
	reason string
	err    error
}

func (r *reasonError) Error() string { return r.err.Error() }
func (r *reasonError) Unwrap() error { return r.err }

// WithReason gives an error the reason that its event carries.
func WithReason(reason string, err error) error { return &reasonError{reason: reason, err: err} }

// Reason is the reason that an error was given last, or otherwise if it was given
// none.
func Reason(err error, fallback string) string {
	if r, ok := errors.AsType[*reasonError](err); ok {
		return r.reason
	}
	return fallback
}

// Source is who may be to blame for an error beside ourselves.
type Source string

// Those who are asked.
const (
	Hook    Source = "hook"
	Handler Source = "handler"
)

// sourceError is an error of one who was asked.
type sourceError struct {
	source Source
	err    error
}

func (b *sourceError) Error() string { return b.err.Error() }
func (b *sourceError) Unwrap() error { return b.err }

// WithSource makes an error that of one who was asked: whatever it wraps happened there. None
// stays none.
func WithSource(source Source, err error) error {
	if err == nil {
		return nil
	}
	return &sourceError{source: source, err: err}
}

// SourceOf is whose error it is; "" if it is nobody's who was asked.
func SourceOf(err error) Source {
	if b, ok := errors.AsType[*sourceError](err); ok {
		return b.source
	}
	return ""
}

// maxMessage is how many bytes of a message are told: a reply or an answer of the API
// server may be quoted in it, and a condition holds no more than 32 KiB.
const maxMessage = 1000

// OneLine is how an error is told: tables show no more than the first line.
func OneLine(err error) string {
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return message
}

// Text returns the text of an error; "" for nil.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

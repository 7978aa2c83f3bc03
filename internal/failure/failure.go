// Package failure is how an error is told to those who use Kubernetes: with the
// reason that an event or a condition carries, and in one line.
//
// What an error means for the next attempt is no business of it: package hook says
// so of what hooks and handlers answer. All rooms that tell failures may import it.
package failure

import (
	"errors"
	"strings"
)

// reasoned is an error with its reason.
type reasoned struct {
	reason string
	err    error
}

func (r *reasoned) Error() string { return r.err.Error() }
func (r *reasoned) Unwrap() error { return r.err }

// New gives an error the reason that its event carries.
func New(reason string, err error) error { return &reasoned{reason: reason, err: err} }

// Reason is the reason that an error was given last, or otherwise if it was given
// none.
func Reason(err error, otherwise string) string {
	if r, ok := errors.AsType[*reasoned](err); ok {
		return r.reason
	}
	return otherwise
}

// longest is how many bytes of a message are told: a reply or an answer of the API
// server may be quoted in it, and a condition holds no more than 32 KiB.
const longest = 1000

// OneLine is how an error is told: tables show no more than the first line.
func OneLine(err error) string {
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + "…"
	}
	return message
}

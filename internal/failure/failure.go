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

// Party is who may be to blame for an error beside ourselves.
type Party string

// Those who are asked.
const (
	Hook    Party = "hook"
	Handler Party = "handler"
)

// blamed is an error of one who was asked.
type blamed struct {
	party Party
	err   error
}

func (b *blamed) Error() string { return b.err.Error() }
func (b *blamed) Unwrap() error { return b.err }

// By makes an error that of one who was asked: whatever it wraps happened there. None
// stays none.
func By(party Party, err error) error {
	if err == nil {
		return nil
	}
	return &blamed{party: party, err: err}
}

// Blamed is whose error it is; "" if it is nobody's who was asked.
func Blamed(err error) Party {
	if b, ok := errors.AsType[*blamed](err); ok {
		return b.party
	}
	return ""
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

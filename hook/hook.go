// Package hook is the contract between Setpoint and hooks: a hook is called with a
// request about one object and returns a response.
//
// The package defines the requests and responses of hooks, customizers, handlers and
// admitters, the errors callers distinguish, and the JSON wire form (versions v1 and
// v2). Package internal/call calls hooks outside of the process; the loops apply
// responses. This package imports no other package of the project.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Hook computes the desired state from the observed state.
//
// Call must be safe for concurrent use and must return when ctx is done. It returns
// either a response or an error. The caller owns the response and may modify it; the
// hook must not modify the request.
type Hook interface {
	Call(ctx context.Context, req *Request) (*Response, error)
}

// Func adapts a function to a Hook.
type Func func(ctx context.Context, req *Request) (*Response, error)

// Call calls f.
func (f Func) Call(ctx context.Context, req *Request) (*Response, error) { return f(ctx, req) }

// Request is the observed state of one parent and its children.
//
// Every json.RawMessage is one complete, compact JSON object. It is shared with the
// cache and read-only.
type Request struct {
	// Controller is the controller object.
	Controller json.RawMessage
	// Parent is the object to reconcile.
	Parent json.RawMessage
	// ParentNamespace is empty if the parent is cluster-scoped.
	ParentNamespace string
	// Children has one group per declared kind, including empty groups.
	Children []Group
	// Related has one group per kind that the Customizer selected, including empty
	// groups.
	Related []Group
	// Finalizing means that the parent is being deleted or no longer matches the
	// controller.
	Finalizing bool
}

// Group lists the observed objects of one kind.
type Group struct {
	// APIVersion and Kind are the objects', such as "apps/v1" and "Deployment".
	APIVersion, Kind string
	Objects          []Entry
}

// Entry is one observed object with its key.
type Entry struct {
	// Namespace is empty if the object is cluster-scoped.
	Namespace, Name string
	Object          json.RawMessage
}

// Response is the desired state.
type Response struct {
	// Status is the parent's desired status, a JSON object; nil if absent or null in the
	// response.
	Status json.RawMessage `json:"status,omitempty"`
	// Children are the desired children in the hook's order, each a JSON object with at
	// least apiVersion, kind and metadata.name.
	Children []json.RawMessage `json:"children,omitempty"`
	// ResyncAfter schedules one more call after this delay; zero schedules none.
	ResyncAfter time.Duration `json:"-"`
	// Finalized, in response to a Finalizing request, reports that cleanup is complete.
	Finalized bool `json:"finalized,omitempty"`
	// Labels and Annotations are set on the parent of a DecoratorController; a nil value
	// removes the key.
	Labels      map[string]*string `json:"labels,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"`
	// Events are emitted for the parent.
	Events []Event `json:"events,omitempty"`
	// Conditions are merged into the parent's status by type.
	Conditions []Condition `json:"conditions,omitempty"`
	// Message is a sentence on the parent's state; optional.
	Message string `json:"message,omitempty"`
	// LogicVersion names the version of the code that responds, such as that of its image; optional. It is the same for
	// all parents. When it changes, all parents are reconciled again.
	LogicVersion string `json:"logicVersion,omitempty"`
}

// Event is a Kubernetes event. Setpoint aggregates repeated events into a count.
type Event struct {
	// Type is "Normal" or "Warning"; "Normal" if absent from a response.
	Type string `json:"type"`
	// Reason is one CamelCase word, Message a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Condition is a status condition. The caller maintains its lastTransitionTime.
type Condition struct {
	// Type and Reason are CamelCase words.
	Type string `json:"type"`
	// Status is "True", "False" or "Unknown".
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// RetryAfterError requests a retry no earlier than After from now.
type RetryAfterError struct {
	After time.Duration
	Err   error
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }
func (e *RetryAfterError) Unwrap() error { return e.Err }

// TerminalError stops retries until the input changes.
type TerminalError struct{ Err error }

func (e *TerminalError) Error() string { return e.Err.Error() }
func (e *TerminalError) Unwrap() error { return e.Err }

// UnreachableError means that the call did not reach the hook: the network or the hook
// as a whole failed, independently of the request.
type UnreachableError struct {
	Err error
	// Connected means that there is a process, which accepted the call and did not finish it: it may crash at each.
	Connected bool
}

func (e *UnreachableError) Error() string { return e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }

// RetryDelay returns the delay of the RetryAfterError that err wraps, if any.
func RetryDelay(err error) (time.Duration, bool) {
	if later, ok := errors.AsType[*RetryAfterError](err); ok {
		return later.After, true
	}
	return 0, false
}

// IsTerminal reports whether err wraps a TerminalError.
func IsTerminal(err error) bool { return isType[*TerminalError](err) }

// IsUnreachable reports whether err wraps an UnreachableError.
func IsUnreachable(err error) bool { return isType[*UnreachableError](err) }

// IsUnconnected reports whether err wraps an UnreachableError without a connection: a call costs the hook nothing.
func IsUnconnected(err error) bool {
	unreachable, is := errors.AsType[*UnreachableError](err)
	return is && !unreachable.Connected
}

// IsMalformed reports whether err wraps a MalformedError.
func IsMalformed(err error) bool { return isType[*MalformedError](err) }

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// StatusCode returns the HTTP status of the response that err wraps, 0 for none.
func StatusCode(err error) int {
	type statusError interface {
		error
		StatusCode() int
	}
	if status, ok := errors.AsType[statusError](err); ok {
		return status.StatusCode()
	}
	return 0
}

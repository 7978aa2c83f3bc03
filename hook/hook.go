// Package hook is the contract in the middle: one question about one object,
// one answer.
//
// Here live the question (Request), the answer (Response), the one-method
// interface between them (Hook), the kinds of error a caller branches on, and
// the wire form of both (versions v1 and v2). How a hook is reached (a webhook,
// a Go function, ...) lives in one room per way under internal/call. What is
// done with an answer lives in the engine. This package imports nothing of the
// project.
package hook

import (
	"context"
	"encoding/json"
	"time"
)

// Hook answers what should be, given what is.
//
// Call must be safe for concurrent use, must return when ctx is done, and
// returns either a response or an error, never neither. The response may be
// kept and changed by the caller; the request must not be changed by the hook.
type Hook interface {
	Call(ctx context.Context, req *Request) (*Response, error)
}

// Func lets a plain function be a Hook.
type Func func(ctx context.Context, req *Request) (*Response, error)

// Call calls f.
func (f Func) Call(ctx context.Context, req *Request) (*Response, error) { return f(ctx, req) }

// Request is one question: the observed state around one parent object.
//
// Every json.RawMessage in it is one complete, compact JSON object and is
// shared with the cache: read-only.
type Request struct {
	// Controller is the controller object that asks.
	Controller json.RawMessage
	// Parent is the object asked about.
	Parent json.RawMessage
	// ParentNamespace is the parent's namespace, empty for a cluster-scoped one.
	ParentNamespace string
	// Children holds one group for every declared kind, also the empty ones.
	Children []Group
	// Related holds one group for every kind the hook asked to be shown beside
	// the children (see Customizer), also the empty ones.
	Related []Group
	// Finalizing says that the parent is going away, or is no longer in the
	// controller's care.
	Finalizing bool
}

// Group is the observed objects of one kind.
type Group struct {
	// APIVersion and Kind as in the objects, such as "apps/v1" and "Deployment".
	APIVersion, Kind string
	Objects          []Entry
}

// Entry is one observed object and what it is found by.
type Entry struct {
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string
	Object          json.RawMessage
}

// Response is the answer: the desired state.
type Response struct {
	// Status is the parent's desired status, a JSON object; nil when the
	// answer had none or null.
	Status json.RawMessage
	// Children are the desired children, each a JSON object with at least
	// apiVersion, kind and metadata.name, in the hook's order.
	Children []json.RawMessage
	// ResyncAfter asks to be called once more after that time; 0 does not.
	ResyncAfter time.Duration
	// Finalized says, while finalizing, that nothing is left to tear down.
	Finalized bool
	// Labels and Annotations are set on the parent, where the controller may do
	// so; nil removes one.
	Labels, Annotations map[string]*string
	// Events are to be told at the parent.
	Events []Event
	// Conditions are merged into the parent's status by type.
	Conditions []Condition
	// Message says in a sentence how the parent is doing; empty says nothing.
	Message string
}

// Event is something a parent's user should know. The same event told again and
// again is counted, not repeated.
type Event struct {
	// Type is "Normal" or "Warning".
	Type string
	// Reason is one word in CamelCase, Message a sentence.
	Reason, Message string
}

// Condition is one condition of a parent's status. When it last changed is kept
// by the asker.
type Condition struct {
	// Type and Reason are words in CamelCase.
	Type string
	// Status is "True", "False" or "Unknown".
	Status          string
	Reason, Message string
}

// Package hook is the contract between Setpoint and hooks: a hook is called with a
// request about one object and returns a response.
//
// The package defines the requests and responses of hooks, customizers, handlers and
// admitters, and the errors callers distinguish. Package codec has their JSON wire
// form; package internal/call calls hooks outside of the process; the loops apply
// responses. This package imports no other package of the project.
package hook

import (
	"context"
	"encoding/json"
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

// ObjectEvent is an event for any object, not only the reviewed one.
type ObjectEvent struct {
	Event

	// APIVersion, Kind, Namespace, Name and UID identify the object. UID is optional.
	// Without a Kind, the event is for the reviewed object, if that has a name.
	APIVersion, Kind, Namespace, Name, UID string `json:"-"`
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

// ControllerType is the type of the calling controller. It determines field names.
type ControllerType uint8

const (
	// Composite names the fields parent and children.
	Composite ControllerType = iota
	// Decorator names the fields object and attachments. Responses may set labels and
	// annotations on the object.
	Decorator
)

// Version is the version of the wire form. It determines the keys of objects.
type Version uint8

const (
	// V1 keys objects by name if the parent is namespaced, and by namespace/name if it
	// is cluster-scoped.
	V1 Version = iota
	// V2 keys every namespaced object by namespace/name.
	V2
)

// String returns "v1" or "v2", as in a controller's spec.
func (v Version) String() string {
	if v == V2 {
		return "v2"
	}
	return "v1"
}

package hook

import (
	"context"
	"encoding/json"
	"time"
)

// Handler reacts to a change of one object. It returns the desired writes; the caller
// makes them.
//
// Handle must be safe for concurrent use and must return when ctx is done. It returns
// either a response or an error. After a RetryAfterError the caller retries the request
// no earlier than the given delay, after a TerminalError not at all, and after any other
// error with backoff.
type Handler interface {
	Handle(ctx context.Context, n *HandlerRequest) (*HandlerResponse, error)
}

// HandlerFunc adapts a function to a Handler.
type HandlerFunc func(ctx context.Context, n *HandlerRequest) (*HandlerResponse, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, n *HandlerRequest) (*HandlerResponse, error) {
	return f(ctx, n)
}

// Reason is the reason for a HandlerRequest.
type Reason string

const (
	// ReasonCreate means that the handler sees the object for the first time. Objects older than
	// the controller get it too, each once.
	ReasonCreate Reason = "Create"
	// ReasonUpdate means that a watched field differs from the state that the handler last
	// processed.
	ReasonUpdate Reason = "Update"
	// ReasonDelete means that the object is being deleted. A finalizer blocks the deletion until
	// the handler succeeds.
	ReasonDelete Reason = "Delete"
	// ReasonResume means that the controller started, and the handler had processed the object
	// before. Each such object gets it once per start.
	ReasonResume Reason = "Resume"
	// ReasonEvent means that the watch delivered any change, including status and deletion. A
	// failed request is not retried.
	ReasonEvent Reason = "Event"
	// ReasonDrift means that another client changed or deleted an owned object.
	ReasonDrift Reason = "Drift"
	// ReasonRelated means that an object changed that the program maps to the handled one. It is
	// for handlers in Go.
	ReasonRelated Reason = "Related"
	// ReasonTimer means that the handler's schedule fired.
	ReasonTimer Reason = "Timer"
	// ReasonMatch asks a conditional handler whether it handles the object as it is. The response
	// has only NotApplicable.
	ReasonMatch Reason = "Match"
	// ReasonDaemon starts, updates or stops what the handler's process runs for the object.
	ReasonDaemon Reason = "Daemon"
)

// EventType is what a ReasonEvent request observed.
type EventType string

// The types of events. Listed means that the first list after the start had the object.
const (
	EventListed   EventType = "Listed"
	EventAdded    EventType = "Added"
	EventModified EventType = "Modified"
	EventDeleted  EventType = "Deleted"
)

// DaemonCall is what a ReasonDaemon request is for.
type DaemonCall string

// The calls of daemons. Collect fetches what the daemon wants to be written.
const (
	DaemonStart   DaemonCall = "Start"
	DaemonUpdate  DaemonCall = "Update"
	DaemonCollect DaemonCall = "Collect"
	DaemonStop    DaemonCall = "Stop"
)

// HandlerRequest describes what happened to one object.
//
// Every json.RawMessage is one complete, compact JSON value. It may be shared with the
// cache and is read-only.
type HandlerRequest struct {
	// Controller is the controller object; nil in a Go program.
	Controller json.RawMessage
	// Handler is the name of the called handler.
	Handler string
	Reason  Reason
	// Object is the current object; after its deletion, the last known state.
	Object json.RawMessage
	// Namespace and Name identify the object; Namespace is empty if it is
	// cluster-scoped.
	Namespace, Name string
	// PreviousState is the object as the handler last processed it, nil if unknown.
	// Changes lists the differences from PreviousState to Object.
	PreviousState json.RawMessage
	Changes       []FieldChange
	// Owned are the objects that Object controls: one group per declared kind, including
	// empty groups.
	Owned []Group
	// Attempt is the number of failed calls with this request so far, and FirstAttempt the time of
	// the first of them; zero if there is none.
	Attempt      int
	FirstAttempt time.Time
	// Progress is what the last response to this request returned as such; nil if none, or if
	// the watched fields have changed since.
	Progress json.RawMessage
	// Deleted reports whether the object of a ReasonEvent request no longer exists.
	Deleted bool
	// Event is set for ReasonEvent, Daemon for ReasonDaemon.
	Event  EventType
	Daemon DaemonCall
	// DryRun means that the caller writes no part of the response. The handler should
	// have no side effects.
	DryRun bool
	// Since is when the watched fields took their current values, as observed by the
	// caller. It survives a restart of the caller while the handler processes an update
	// with RetryAfter. It is not part of the wire form.
	Since time.Time
	// Reader reads the kinds that the controller declares. It is nil in webhook calls
	// and not part of the wire form.
	Reader Reader
}

// Reader reads objects from the API server, bypassing caches.
type Reader interface {
	// List returns the objects of a kind, such as "v1" and "Pod", that match a label
	// selector, in one namespace or, for "", in all. It returns a TerminalError if the
	// handler may not read them.
	List(ctx context.Context, apiVersion, kind, namespace, selector string) (Group, error)
}

// FieldChange is a changed field.
type FieldChange struct {
	// Path is the field path, such as "spec.containers[0].image".
	Path string
	// From and To are JSON; nil if the field is absent.
	From, To json.RawMessage
}

// String returns the change for logs, such as "spec.replicas: 1 -> 2".
func (c FieldChange) String() string {
	return c.Path + ": " + orNone(c.From) + " -> " + orNone(c.To)
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "nothing"
	}
	return string(value)
}

// HandlerResponse lists the desired writes. The zero value writes nothing.
type HandlerResponse struct {
	// Patch is a JSON merge patch of the object without its status; nil for none.
	Patch json.RawMessage `json:"patch,omitempty"`
	// Status is a JSON merge patch of the object's status; nil for none.
	Status json.RawMessage `json:"status,omitempty"`
	// Apply lists objects to apply, each with at least apiVersion, kind and
	// metadata.name. Setpoint sets the handled object as owner unless Unowned is set, or
	// the handled object is namespaced and the applied one is outside its namespace.
	Apply []AppliedObject `json:"-"`
	// Delete lists objects to delete.
	Delete []Deletion `json:"delete,omitempty"`
	// Events are emitted for the object.
	Events []Event `json:"events,omitempty"`
	// Conditions are merged into the object's status by type.
	Conditions []Condition `json:"conditions,omitempty"`
	// Message is a sentence on the object's state; optional.
	Message string `json:"message,omitempty"`
	// RetryAfter makes the caller write the response and then repeat the request after
	// this delay. Zero completes the request. See Immediately.
	RetryAfter time.Duration `json:"-"`
	// Err makes the call fail after the rest of the response is written. The caller retries as
	// after an error without a response. Not allowed with Apply, Delete and RetryAfter.
	Err error `json:"-"`
	// Progress is an object of at most MaxProgress bytes that the caller keeps, also across its
	// restarts, until the request is complete. It requires RetryAfter, or an Err that is not
	// terminal.
	Progress json.RawMessage `json:"progress,omitempty"`
	// NotApplicable means that a conditional handler does not handle the object as it is. The
	// caller repeats the request when the object changes. It excludes everything else.
	NotApplicable bool `json:"-"`
	// Finished means that a daemon has ended.
	Finished bool `json:"finished,omitempty"`
	// NoSideEffects means that the handler did nothing, so that a repeated call would do no harm. The
	// caller writes the record with its next write, instead of one of its own. It excludes everything
	// else.
	NoSideEffects bool `json:"-"`
}

// MaxProgress limits the bytes of HandlerResponse.Progress, which is stored in the object.
const MaxProgress = 8 << 10

// Immediately is a RetryAfter without delay: the first repeat is immediate, consecutive
// ones follow the handler's backoff.
const Immediately = time.Nanosecond

// AppliedObject is an object for server-side apply.
type AppliedObject struct {
	Object json.RawMessage `json:"object"`
	// Unowned omits the owner reference, so the object outlives the handled one.
	Unowned bool `json:"unowned"`
}

// Deletion selects objects to delete: one by name, or all that match a label selector.
type Deletion struct {
	// APIVersion and Kind are the objects', such as "v1" and "Pod".
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace defaults to the handled object's.
	Namespace string `json:"namespace,omitempty"`
	// Exactly one of Name and Selector is set. Selector is a label selector, such as
	// "app=web,tier!=cache".
	Name     string `json:"name,omitempty"`
	Selector string `json:"selector,omitempty"`
	// Evict evicts pods instead of deleting them, so PodDisruptionBudgets apply.
	Evict bool `json:"evict,omitempty"`
}

// IndexRequest has objects of one kind for the index of a process. Lists and changes have the
// same form: see First and Complete.
type IndexRequest struct {
	// Controller is the controller object.
	Controller json.RawMessage
	// APIVersion and Kind are those of all objects.
	APIVersion, Kind string
	// First means that a list begins: what the list does not have is no longer in the index.
	First bool
	// Objects are new or changed, Deleted are gone or no longer handled.
	Objects []json.RawMessage
	Deleted []DeletedObject
	// Complete means that the list ends with this request, or ended before.
	Complete bool
}

// DeletedObject names an object that is no longer in an index.
type DeletedObject struct{ Namespace, Name, UID string }

// Notification is a line that the process of a handler writes to its stream: the name of an
// object, and what to do about it.
type Notification struct {
	// ObjectEvent names the object. If it has a Reason, the event is sent for the object, which
	// may be of any kind; else the object is reconciled. An empty UID means any.
	ObjectEvent
}

// IsEvent reports whether the notification has an event to send.
func (n *Notification) IsEvent() bool { return n.Reason != "" }

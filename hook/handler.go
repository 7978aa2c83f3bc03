package hook

import (
	"context"
	"encoding/json"
	"time"
)

// Handler does something about what happened to one object: it says what is to be
// written, and leaves the writing to the asker.
//
// Handle must be safe for concurrent use, must return when ctx is done, and
// returns either an answer or an error, never neither. A RetryAfterError or a
// TerminalError says when, and whether at all, the same notice comes again; any
// other error has it come again after a backoff.
type Handler interface {
	Handle(ctx context.Context, n *HandlerRequest) (*HandlerResponse, error)
}

// HandlerFunc lets a plain function be a Handler.
type HandlerFunc func(ctx context.Context, n *HandlerRequest) (*HandlerResponse, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, n *HandlerRequest) (*HandlerResponse, error) {
	return f(ctx, n)
}

// Reason says what a Notice is about.
type Reason string

const (
	// ReasonCreate is told once of every object, also of those that are older than
	// the controller.
	ReasonCreate Reason = "Create"
	// ReasonUpdate is told when a watched field is another one than the handler last
	// dealt with.
	ReasonUpdate Reason = "Update"
	// ReasonDelete is told while an object is being deleted, which waits for it.
	ReasonDelete Reason = "Delete"
	// ReasonResume is told once of every object that had been dealt with before the
	// controller started.
	ReasonResume Reason = "Resume"
	// ReasonEvent is told of every change that is seen, also of the status, and of an
	// object's end. It is not told again when it fails.
	ReasonEvent Reason = "Event"
	// ReasonDrift is told when an object that the handled one owns was changed or
	// deleted by somebody else.
	ReasonDrift Reason = "Drift"
	// ReasonTimer is told by the clock.
	ReasonTimer Reason = "Timer"
)

// HandlerRequest tells a Handler of one object what happened to it.
//
// Every json.RawMessage in it is one complete, compact JSON value and may be
// shared with the cache: read-only.
type HandlerRequest struct {
	// Controller is the controller object that asks; nil for a Go program.
	Controller json.RawMessage
	// Handler is the name of the handler told.
	Handler string
	Reason  Reason
	// Object is the object as it is now; with the event of its end, as it was.
	Object json.RawMessage
	// Namespace and Name are the object's; Namespace is empty for a
	// cluster-scoped one.
	Namespace, Name string
	// PreviousState is the object as the handler last dealt with it, nil where that is not
	// known (any more); Changes says how Object differs from it.
	PreviousState json.RawMessage
	Changes       []FieldChange
	// Owned are the objects that the object controls, a group for every kind the
	// controller declares to own, also the empty ones.
	Owned []Group
	// Attempt counts how often this notice has failed already.
	Attempt int
	// Deleted says that the object of an event does not exist any more.
	Deleted bool
	// DryRun says that the answer is looked at and not written: what the handler would
	// do elsewhere, it should leave.
	DryRun bool
	// Since is since when what the handler watches is as it is now, as far as the
	// asker has seen: no earlier than that was known. It outlives the asker for a
	// handler that is at work on an update and has asked to be told again.
	Since time.Time
	// Reader reads what the controller declares to read; nil in a notice that goes
	// over the wire. Neither it nor Since has a place there.
	Reader Reader
}

// Reader reads objects as they are stored, past all caches.
type Reader interface {
	// List reads the objects of a kind, such as "v1" and "Pod", that a label selector
	// matches, in a namespace or, with "", in all. A TerminalError says that they are
	// not for the handler to read.
	List(ctx context.Context, apiVersion, kind, namespace, selector string) (Group, error)
}

// FieldChange is one field that is not what it was.
type FieldChange struct {
	// Path is as users write it: "spec.containers[0].image".
	Path string
	// From and New are JSON; nil where there was, or is, nothing.
	From, To json.RawMessage
}

// String is the change as a log line has it: spec.replicas: 1 -> 2.
func (c FieldChange) String() string {
	return c.Path + ": " + orNone(c.From) + " -> " + orNone(c.To)
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "nothing"
	}
	return string(value)
}

// HandlerResponse says what is to be written.
type HandlerResponse struct {
	// Patch is a JSON merge patch of the object, for anything but its status;
	// nil for none.
	Patch json.RawMessage
	// Status is a JSON merge patch of the object's status; nil for none.
	Status json.RawMessage
	// Apply are objects to apply, each with at least apiVersion, kind and
	// metadata.name. Those in the object's namespace, and all that a
	// cluster-scoped object has made, are owned by it unless Unowned.
	Apply []AppliedObject
	// Delete are objects to delete.
	Delete []Deletion
	// Events are told at the object.
	Events []Event
	// Conditions are merged into the object's status by type.
	Conditions []Condition
	// Message says in a sentence how the object is doing; empty says nothing.
	Message string
	// RetryAfter has the same notice come again after that time, although all of
	// the answer is written: the handler is not done. 0 for done. See Immediately.
	RetryAfter time.Duration
}

// Immediately is a RetryAfter that goes through the rate limiter: the first call comes at
// once, further ones in a row after the handler's backoff.
const Immediately = time.Nanosecond

// AppliedObject is one object to apply, by server-side apply.
type AppliedObject struct {
	Object json.RawMessage
	// Unowned leaves the object without an owner reference: it stays when the
	// handled object goes.
	Unowned bool
}

// Deletion names objects to delete: one by its name, or those that match a label
// selector.
type Deletion struct {
	// APIVersion and Kind as in the objects, such as "v1" and "Pod".
	APIVersion, Kind string
	// Namespace is that of the handled object where it is empty.
	Namespace string
	// Name or Selector, the latter such as "app=web,tier!=cache".
	Name, Selector string
	// Evict asks for pods to be evicted instead, which a PodDisruptionBudget may
	// refuse for a while.
	Evict bool
}

package hook

import (
	"context"
	"encoding/json"
)

// Admitter says whether a change of an object may be stored, and what the object is
// to be before it is.
//
// Admit must be safe for concurrent use, must return when ctx is done, and returns
// either a verdict or an error, never neither. A refusal is a verdict. An error says
// that there is none: what is done then is for the failure policy to say.
//
// It may be asked of one change several times, and of changes that are never made:
// it changes nothing but by its verdict.
type Admitter interface {
	Admit(ctx context.Context, r *ReviewRequest) (*ReviewResponse, error)
}

// AdmitterFunc lets a plain function be an Admitter.
type AdmitterFunc func(ctx context.Context, r *ReviewRequest) (*ReviewResponse, error)

// Admit calls f.
func (f AdmitterFunc) Admit(ctx context.Context, r *ReviewRequest) (*ReviewResponse, error) {
	return f(ctx, r)
}

// Operation is what is to be done with an object, as the API server names it.
type Operation string

// The operations.
const (
	OperationCreate  Operation = "CREATE"
	OperationUpdate  Operation = "UPDATE"
	OperationDelete  Operation = "DELETE"
	OperationConnect Operation = "CONNECT"
)

// ReviewRequest asks an Admitter about one change.
//
// Every json.RawMessage in it is one complete, compact JSON value: read-only.
type ReviewRequest struct {
	// Controller is the controller object that asks; nil for a Go program.
	Controller json.RawMessage
	// Webhook is the name of the webhook asked.
	Webhook string
	// UID tells this review from any other.
	UID       string
	Operation Operation
	// APIVersion and Kind are those of the objects, such as "apps/v1" and
	// "Deployment"; Resource is the plural, and Subresource such as "status", empty for
	// the object itself.
	APIVersion, Kind      string
	Resource, Subresource string
	// Namespace is empty for a cluster-scoped object, and Name for one that the API
	// server is to name.
	Namespace, Name string
	// Object is the object as it would be stored; nil for a deletion. Old is what is
	// stored; nil for a creation.
	Object, OldObject json.RawMessage
	// User is who wants it.
	User User
	// DryRun says that nothing will be stored.
	DryRun bool
}

// User is who makes a request, as the API server knows them.
type User struct {
	Name   string              `json:"username"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// ReviewResponse is what an Admitter says. The zero value allows the change as it is.
type ReviewResponse struct {
	// Denial refuses the change; nil allows it.
	Denial *Denial
	// Object is what to store instead of the object asked about; nil leaves it as it
	// is. Patch says the same as a JSON merge patch, and JSONPatch as a JSON patch: at
	// most one of the three. A webhook that validates changes nothing.
	Object, Patch, JSONPatch json.RawMessage
	// Warnings are shown to the user, each on a line of its own. Kubernetes cuts them
	// at 256 characters or so.
	Warnings []string
	// AuditAnnotations is written to the audit log, by key.
	AuditAnnotations map[string]string
	// Events are told when the change is not a dry run, once the verdict is given,
	// each at the object it names.
	Events []ObjectEvent
}

// Denial is a refusal.
type Denial struct {
	// Message says what is wrong and what to do.
	Message string
	// Reason is the API server's for such an error, such as "Invalid"; "Forbidden" if
	// empty.
	Reason string
	// Code is the HTTP status; 403 if zero.
	Code int
}

// ObjectEvent is an event at an object other than the one it was found at.
type ObjectEvent struct {
	Event

	// APIVersion, Kind, Namespace, Name and UID are the object's. The UID may be
	// empty; where the Kind is, the event is told at the object asked about, if that
	// has a name.
	APIVersion, Kind, Namespace, Name, UID string
}

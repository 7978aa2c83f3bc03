package hook

import (
	"context"
	"encoding/json"
)

// Admitter reviews a change to an object before the API server stores it. It allows the
// change, denies it, or allows it with modifications.
//
// Admit must be safe for concurrent use and must return when ctx is done. It returns
// either a response or an error. A denial is a response. After an error, the failure
// policy decides whether the API server stores the change.
//
// The API server may send the same change several times, and may drop a change that
// Admit allowed. Admit must therefore have no side effects.
type Admitter interface {
	Admit(ctx context.Context, r *ReviewRequest) (*ReviewResponse, error)
}

// AdmitterFunc adapts a function to an Admitter.
type AdmitterFunc func(ctx context.Context, r *ReviewRequest) (*ReviewResponse, error)

// Admit calls f.
func (f AdmitterFunc) Admit(ctx context.Context, r *ReviewRequest) (*ReviewResponse, error) {
	return f(ctx, r)
}

// Operation is an operation on an object, in the API server's spelling.
type Operation string

// The operations.
const (
	OperationCreate  Operation = "CREATE"
	OperationUpdate  Operation = "UPDATE"
	OperationDelete  Operation = "DELETE"
	OperationConnect Operation = "CONNECT"
)

// ReviewRequest describes one change to one object.
//
// Every json.RawMessage is one complete, compact JSON value and read-only.
type ReviewRequest struct {
	// Controller is the controller object; nil in a Go program.
	Controller json.RawMessage
	// Webhook is the name of the called webhook.
	Webhook string
	// UID identifies this review.
	UID       string
	Operation Operation
	// APIVersion and Kind are the object's, such as "apps/v1" and "Deployment". Resource
	// is the plural name; Subresource, such as "status", is empty for the object itself.
	APIVersion, Kind      string
	Resource, Subresource string
	// Namespace is empty for a cluster-scoped object. Name is empty if the API server
	// generates it.
	Namespace, Name string
	// Object is the new object; nil for a deletion. OldObject is the stored object; nil
	// for a creation.
	Object, OldObject json.RawMessage
	// User sent the request to the API server.
	User User
	// DryRun reports whether the API server discards the change after the review.
	DryRun bool
}

// User identifies the sender of a request to the API server.
type User struct {
	Name   string              `json:"username"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// ReviewResponse is the response of an Admitter. The zero value allows the change
// unmodified.
type ReviewResponse struct {
	// Denial rejects the change; nil allows it.
	Denial *Denial `json:"-"`
	// Object replaces the object, Patch is a JSON merge patch and JSONPatch a JSON patch
	// of it. At most one is set; none leaves the object unmodified. A validating webhook
	// sets none.
	Object    json.RawMessage `json:"object,omitempty"`
	Patch     json.RawMessage `json:"patch,omitempty"`
	JSONPatch json.RawMessage `json:"jsonPatch,omitempty"`
	// Warnings are shown to the user, one per line. Kubernetes truncates long ones at
	// about 256 characters.
	Warnings []string `json:"warnings,omitempty"`
	// AuditAnnotations are added to the audit log, by key.
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
	// Events are emitted after the review, each for the object it names. A dry run emits
	// none.
	Events []ObjectEvent `json:"events,omitempty"`
}

// Denial explains why a change is rejected.
type Denial struct {
	// Message describes the problem and how to fix it.
	Message string `json:"message,omitempty"`
	// Reason is a metav1.StatusReason, such as "Invalid"; that of the code if empty.
	Reason string `json:"reason,omitempty"`
	// Code is the HTTP status of the denial; 403 if zero.
	Code int `json:"code,omitempty"`
}

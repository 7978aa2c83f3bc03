// Package admission answers the API server when it asks whether an object may be
// stored, and as what.
//
// Here live the HTTPS server, the certificates it is known by, their rotation, the
// webhook configurations by which the API server knows whom to ask, the probe that
// finds out whether it can, and the way from an AdmissionReview to a question for a
// hook and back. What must not: what a controller's spec looks like, and who leads.
//
// The host runs one Server, and a Registrar while it leads; compile and the SDK make
// the programs.
package admission

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
)

// Program is the webhooks of one controller, ready to be asked.
type Program struct {
	// Name identifies the controller in logs, metrics and the paths of requests.
	Name string
	// Object is the controller as its hooks see it; nil for a Go program.
	Object json.RawMessage
	// Configuration is the name of its webhook configurations, of either kind.
	Configuration string
	// Owner is who they go with; nil for nobody.
	Owner *metav1.OwnerReference
	// Webhooks are asked in this order, those that mutate before those that validate.
	Webhooks []Webhook
}

// Webhook is one question to be asked about changes of some kinds.
type Webhook struct {
	// Name is unique in its program, made of lower-case letters, digits and dashes.
	Name string
	// Mutates says that the answer may change the object.
	Mutates bool
	// Rules say which changes it is about; one that matches suffices.
	Rules []Rule
	// Objects and Namespaces select by labels, those of the object (the old or the new
	// one) and of its namespace; nil for all.
	Objects, Namespaces *metav1.LabelSelector
	// ExemptNamespaces are namespaces whose objects it is not asked about, whatever else is said.
	ExemptNamespaces []string
	// Conditions are CEL expressions, by name, that must all be true.
	Conditions []Condition
	// Ignore lets a change pass when there is no verdict; else it is refused.
	Ignore bool
	// Timeout is how long a verdict may take, 1s to 30s in whole seconds.
	Timeout time.Duration
	// Reinvoke has a mutating webhook asked again when others after it have changed the
	// object.
	Reinvoke bool
	// Admitter is who is asked.
	Admitter hook.Admitter
}

// AllowAll is the program once it is gone: whoever still asks is told that all is
// allowed.
func (p *Program) AllowAll() *Program {
	gone := *p
	gone.Webhooks = slices.Clone(p.Webhooks)
	for i := range gone.Webhooks {
		gone.Webhooks[i].Admitter = hook.AdmitterFunc(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
			return &hook.ReviewResponse{}, nil
		})
	}
	return &gone
}

// Rule is some operations on some resources of one group and version.
type Rule struct {
	Group, Version string
	// Resources are plurals, with a subresource after a slash: "pods", "pods/status",
	// "pods/*".
	Resources  []string
	Operations []hook.Operation
}

// Condition is a CEL expression as in a webhook's matchConditions.
type Condition struct{ Name, Expression string }

// Observer is told what a Server does. It must be quick.
type Observer interface {
	// Reviewed is told of each verdict, and of each time that there is none.
	Reviewed(ReviewRecord)
	// EventAt is told what somebody should know about an object.
	EventAt(event hook.ObjectEvent)
}

// ReviewRecord is one time that a webhook was asked.
type ReviewRecord struct {
	Program, Webhook string
	// Operation is empty where the review could not be read.
	Operation hook.Operation
	Result    Result
	Duration  time.Duration
	// Err is why there was no verdict; nil if there was.
	Err error
	// Started is when, Review what was asked and Verdict what was said; nil where it
	// could not be read, or there was none.
	Started  time.Time
	Request  *hook.ReviewRequest
	Response *hook.ReviewResponse
	// Authenticated says that the caller has shown a certificate of the API server.
	// Else the review is what a caller that knows the path has reported.
	Authenticated bool
}

// Result is what came of a review.
type Result string

// The results, as metrics name them.
const (
	Allowed Result = "allowed"
	Mutated Result = "mutated"
	Denied  Result = "denied"
	Errored Result = "error"
)

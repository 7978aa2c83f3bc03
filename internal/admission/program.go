// Package admission serves the admission webhooks of controllers.
//
// It contains the HTTPS server, its certificates and their rotation, the webhook
// configurations, the probe that checks whether the API server reaches the server, and
// the conversion of an AdmissionReview to a hook request and back. It knows neither the
// specs of controllers nor the leader.
//
// The manager runs one Server, and a Registrar while it leads. Package compile and the
// SDK make the programs.
package admission

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
)

// Program is the webhooks of one controller.
type Program struct {
	// Name identifies the controller in logs, metrics and the paths of requests.
	Name string
	// Object is the controller that hooks receive; nil for a Go program.
	Object json.RawMessage
	// Configuration is the name of its webhook configurations.
	Configuration string
	// Owner is the owner of the configurations, or nil.
	Owner *metav1.OwnerReference
	// Webhooks are in the order of their calls, mutating before validating ones.
	Webhooks []Webhook
}

// Webhook reviews changes of some kinds.
type Webhook struct {
	// Name is unique in its program: lower-case letters, digits and dashes.
	Name string
	// Mutates reports that the response may change the object.
	Mutates bool
	// Rules select changes; one must match.
	Rules []Rule
	// Objects and Namespaces select by the labels of the old or new object, and of its
	// namespace; nil means all.
	Objects, Namespaces *metav1.LabelSelector
	// ExemptNamespaces are never reviewed.
	ExemptNamespaces []string
	// Conditions are CEL expressions that must all be true.
	Conditions []Condition
	// Ignore allows a change without a response; otherwise it is denied.
	Ignore bool
	// Timeout limits a review, 1s to 30s in whole seconds.
	Timeout time.Duration
	// Reinvoke calls a mutating webhook again when a later webhook changed the object.
	Reinvoke bool
	Admitter hook.Admitter
}

// AllowAll returns a copy of a removed program that allows everything, for calls that
// still arrive.
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

// Rule selects operations on resources of one group and version.
type Rule struct {
	Group, Version string
	// Resources are plurals, with a subresource after a slash: "pods", "pods/status",
	// "pods/*".
	Resources  []string
	Operations []hook.Operation
}

// Condition is a CEL expression of matchConditions.
type Condition struct{ Name, Expression string }

// Observer receives what a Server does. It must be fast.
type Observer interface {
	// Reviewed receives each review, also those without a response.
	Reviewed(ReviewRecord)
	// EventAt receives the events of responses.
	EventAt(event hook.ObjectEvent)
}

// ReviewRecord is one call of a webhook.
type ReviewRecord struct {
	Program, Webhook string
	// Operation is empty if the review could not be decoded.
	Operation hook.Operation
	Result    Result
	Duration  time.Duration
	// Err is why there was no response.
	Err error
	// Started is when the call began. Request and Response are nil if the review could
	// not be decoded or failed.
	Started  time.Time
	Request  *hook.ReviewRequest
	Response *hook.ReviewResponse
	// Authenticated reports that the caller presented a certificate of the API server.
	// Otherwise the review is from a caller that knows the path.
	Authenticated bool
}

// Result is the outcome of a review.
type Result string

// The results, as in metrics.
const (
	Allowed Result = "allowed"
	Mutated Result = "mutated"
	Denied  Result = "denied"
	Errored Result = "error"
)

// Package admission describes the admission webhooks of controllers: what to review, and
// the paths of the webhooks.
//
// Its packages do the work, each for the programs of all controllers: server serves
// reviews, certs renews the certificates of the server, register tells the API server of
// the webhooks and probes whether it reaches them, and patch compares objects. They know
// neither the specs of controllers nor the leader.
//
// The manager runs them. Package compile and the SDK make the programs.
package admission

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// DefaultTimeout is the default of Kubernetes.
const DefaultTimeout = 10 * time.Second

// Labels of the objects that Setpoint stores.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagerName    = "setpoint"
)

// Program is the webhooks of one controller.
type Program struct {
	// Name identifies the controller in logs, metrics and the paths of requests.
	Name string
	// Object is the controller that hooks receive; nil for a Go program.
	Object json.RawMessage
	// User sends the events of responses; empty for Setpoint itself.
	User string
	// Configuration is the name of its webhook configurations.
	Configuration string
	// Owner is the owner of the configurations, or nil.
	Owner *metav1.OwnerReference
	// Unprobed means that its registration is not probed, because no status tells.
	Unprobed bool
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
	Conditions []admissionv1.MatchCondition
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

// SelectsAs reports whether two programs, of which each may be nil, have webhooks of the same names, for the same changes.
func (p *Program) SelectsAs(other *Program) bool {
	if p == nil || other == nil {
		return p == other
	}
	return slices.EqualFunc(p.Webhooks, other.Webhooks, func(a, b Webhook) bool {
		a.Admitter, b.Admitter = nil, nil
		return equality.Semantic.DeepEqual(a, b)
	})
}

// Rule selects operations on resources of one group and version.
type Rule struct {
	Group, Version string
	// Resources are plurals, with a subresource after a slash: "pods", "pods/status",
	// "pods/*".
	Resources  []string
	Operations []hook.Operation
}

// ControllerGroups are the groups of controllers.
func ControllerGroups() []string { return []string{"setpoint.dev", "metacontroller.k8s.io"} }

// ExemptGroup reports whether objects of a group cannot be reviewed, because users need
// them to repair, suspend or delete a hook that is down. The API server exempts webhook
// configurations itself.
func ExemptGroup(group string) bool {
	return group == "admissionregistration.k8s.io" || slices.Contains(ControllerGroups(), group)
}

// Permission is some verbs on a resource, in a namespace or in all, and on one object if
// Name is set.
type Permission struct {
	Resource        object.Resource
	Verbs           []string
	Namespace, Name string
}

// Observer receives what a Server does. It must be fast.
type Observer interface {
	// Reviewed receives each review, also those without a response.
	Reviewed(ReviewRecord)
	// EventAt receives the events of responses, with the User of the program.
	EventAt(user string, event hook.ObjectEvent)
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
	// Resource is the resource of the request. For a subresource with objects of another
	// kind, such as scale, it is that of the parent.
	Resource schema.GroupVersionResource
	// Patch is the JSON patch for the API server; nil if the webhook changed nothing.
	Patch json.RawMessage
	// Authenticated reports that the caller presented a certificate of the API server.
	// Otherwise the review is from a caller that knows the path.
	Authenticated bool
	// TraceID is empty without a trace.
	TraceID string
	// Secrets are the values of the Secret that is reviewed and of its changes, which Err, events and spans do not have;
	// nil if the review could not be decoded.
	Secrets *redact.Values
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

package setpoint

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// ReviewOption configures an admission webhook.
type ReviewOption interface{ applyToReview(*sdk.Webhook) }

type reviewOption func(*sdk.Webhook)

func (o reviewOption) applyToReview(w *sdk.Webhook) { o(w) }

// On sets the operations to review. The default is OperationCreate for Mutate, and
// OperationCreate and OperationUpdate for Validate.
func On(operations ...Operation) ReviewOption {
	return reviewOption(func(w *sdk.Webhook) { w.AddOperations(operations...) })
}

// Subresources sets the subresources to review, such as "status" and "scale", instead of
// the object itself, which is "". If a subresource has another kind, T is its type, and
// the option Kind names the kind of the object.
func Subresources(names ...string) ReviewOption {
	return reviewOption(func(w *sdk.Webhook) { w.Subresources = append(w.Subresources, names...) })
}

// NamespaceLabels limits an admission webhook to objects in namespaces that match a label
// selector, such as "team=web". It does not limit cluster-scoped objects.
func NamespaceLabels(selector string) ReviewOption {
	return reviewOption(func(w *sdk.Webhook) { w.NamespaceLabels = append(w.NamespaceLabels, selector) })
}

// Match limits an admission webhook to changes for which a CEL expression is true, such
// as "!has(object.metadata.deletionTimestamp)". The API server evaluates it. The name is
// for messages. All conditions must be true.
func Match(name, cel string) ReviewOption {
	return reviewOption(func(w *sdk.Webhook) {
		w.Spec.Conditions = append(w.Spec.Conditions, admissionv1.MatchCondition{Name: name, Expression: cel})
	})
}

// FailurePolicyType decides on a change without a response.
type FailurePolicyType string

// The failure policies.
const (
	// Ignore allows the change.
	Ignore FailurePolicyType = "Ignore"
	// Fail denies the change.
	Fail FailurePolicyType = "Fail"
)

// FailurePolicy decides on a change without a response: the program does not respond in
// time, returns an error that is no denial, or panics. The default is Ignore for Mutate,
// so that an outage does not stop the cluster, and Fail for Validate, so that an outage
// does not disable a rule.
func FailurePolicy(f FailurePolicyType) ReviewOption {
	return reviewOption(func(w *sdk.Webhook) {
		if f != Ignore && f != Fail {
			w.AddProblem("FailurePolicy: must be %[2]s or %[3]s, not %[1]q", f, Ignore, Fail)
		}
		w.Spec.Ignore = f == Ignore
	})
}

// Reinvoke calls a Mutate function again when a later webhook changed the object.
func Reinvoke() ReviewOption {
	return reviewOption(func(w *sdk.Webhook) { w.Reinvoke() })
}

// IncludeSystemNamespaces also reviews objects in kube-system, kube-node-lease and the
// namespace of the program. They are excluded by default, so that the cluster and the
// program can be repaired while the program is down.
func IncludeSystemNamespaces() ReviewOption {
	return reviewOption(func(w *sdk.Webhook) { w.SystemNamespaces = true })
}

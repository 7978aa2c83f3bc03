package setpoint

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// ReviewFunc reviews a change of an object of type T before the API server stores it. It
// returns nil to allow the change, and Deny or Invalid to deny it. On any other error, and
// on a panic, the FailurePolicy decides. It must be safe for concurrent use and have no
// side effects: the API server may send a change several times, and may not make it.
type ReviewFunc[T any] func(ctx context.Context, r *Review[T]) error

// Mutate reviews the creation of objects, or the operations of On, and stores what fn
// changes of Review.Object. The function must be idempotent. Without a response within 5
// seconds, the object is stored unchanged, unless FailurePolicy is Fail.
//
// Mutating webhooks are called before validating ones, in the order of their registration.
func (h *Handlers[T]) Mutate(name string, fn ReviewFunc[T], options ...ReviewOption) {
	h.registerReview("Mutate", name, fn, options)
}

// Validate reviews the creation and update of objects, or the operations of On. Without a
// response within 5 seconds, the change is denied, unless FailurePolicy is Ignore. Changes
// of Review.Object have no effect.
func (h *Handlers[T]) Validate(name string, fn ReviewFunc[T], options ...ReviewOption) {
	h.registerReview("Validate", name, fn, options)
}

func (h *Handlers[T]) registerReview(verb, name string, fn ReviewFunc[T], options []ReviewOption) {
	w := sdk.NewWebhook(verb, name)
	w.Admitter = &review[T]{w, h.kind, name, fn}
	if fn == nil {
		w.AddProblem("the function is nil")
	}
	for _, o := range options {
		o.applyToReview(w)
	}
	h.kind.AddWebhook(w)
}

// review calls the function of an admission webhook. It implements hook.Admitter.
type review[T any] struct {
	webhook *sdk.Webhook
	of      *sdk.Handlers
	name    string
	fn      ReviewFunc[T]
}

// Admit calls the function.
func (v *review[T]) Admit(ctx context.Context, req *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	r, err := newReview(v, req)
	if err != nil {
		return nil, err
	}
	return r.respond(r.call.Invoke(ctx, "review", v.name, func() error { return v.fn(ctx, r) }))
}

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

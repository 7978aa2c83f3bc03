package setpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ReviewFunc reviews a change of an object of type T before the API server stores it. It
// returns nil to allow the change, and Deny or Invalid to deny it. On any other error, and
// on a panic, the FailurePolicy decides. It must be safe for concurrent use and have no
// side effects: the API server may send a change several times, and may not make it.
type ReviewFunc[T any] func(ctx context.Context, r *Review[T]) error

// review is one admission webhook.
type review[T any] struct {
	*reviewSettings

	handlers *Handlers[T]
	fn       ReviewFunc[T]
}

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
	one := &review[T]{reviewSettings: newReviewSettings(verb, name), handlers: h, fn: fn}
	if fn == nil {
		one.addProblem("the function is nil")
	}
	for _, o := range options {
		o.applyToReview(one.reviewSettings)
	}
	h.reviews = append(h.reviews, one)
}

// Admit calls the function. It implements hook.Admitter.
func (v *review[T]) Admit(ctx context.Context, req *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	r, err := newReview(v, req)
	if err != nil {
		return nil, err
	}
	return r.respond(r.objectContext.run(ctx, "review", v.name, func() error { return v.fn(ctx, r) }))
}

// admissionProgram returns the program of the admission webhooks, or nil.
func (h *Handlers[T]) admissionProgram(of object.Resource, env *compile.Environment) (*admission.Program, error) {
	if len(h.reviews) == 0 {
		return nil, nil //nolint:nilnil // Documented.
	}
	// The configurations live in no namespace, and an app may run in several, for each
	// on its own. None of the names has a dot in it.
	p := &admission.Program{Name: h.c.name(), Configuration: h.c.app.name + "." + h.c.shortName() + "." + env.Namespace}
	for _, one := range h.reviews {
		w := one.webhook(&h.c, of)
		w.Admitter = one
		if !one.systemNamespaces {
			w.ExemptNamespaces = env.ExemptNamespaces()
		}
		if compile.OnlyExempt(h.c.runNamespaces, w.ExemptNamespaces) {
			return nil, &compile.Refusal{Reason: api.ReasonInvalidSpec, Err: fmt.Errorf(
				"%s %q: limited to the namespaces %s, which admission webhooks exclude; use setpoint.IncludeSystemNamespaces",
				one.verb, one.name, strings.Join(h.c.runNamespaces, ", "))}
		}
		p.Webhooks = append(p.Webhooks, w)
	}
	// The API server calls them in this order.
	slices.SortStableFunc(p.Webhooks, func(a, b admission.Webhook) int { return reviewOrder(a) - reviewOrder(b) })
	return p, nil
}

// reviewOrder puts mutating webhooks before validating ones.
func reviewOrder(w admission.Webhook) int {
	if w.Mutates {
		return 0
	}
	return 1
}

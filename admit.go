package setpoint

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ReviewFunc is asked about a change of an object of type T before it is stored. It
// returns nil to let it pass, Deny or Invalid to refuse it, and any other error, as
// does a panic, if it cannot say: then FailurePolicy decides. It must be safe for
// concurrent use and change nothing but by the review: it is asked of one change
// several times, and of changes that are never made.
type ReviewFunc[T any] func(ctx context.Context, r *Review[T]) error

// review is one function that is asked.
type review[T any] struct {
	*reviewSettings

	handlers *Handlers[T]
	fn       ReviewFunc[T]
}

// Mutate has do asked before an object is created, or On says otherwise: what it
// changes of the object is stored. Asked about its own result, it is to change
// nothing more. Where there is no verdict within 5 seconds, the object is stored as
// it is, unless FailurePolicy says otherwise.
//
// All functions that mutate are asked before those that validate, in the order in
// which they were registered.
func (h *Handlers[T]) Mutate(fn ReviewFunc[T], options ...ReviewOption) {
	h.registerReview("Mutate", fn, options)
}

// Validate has do asked before an object is created or updated, or On says otherwise.
// Where there is no verdict within 5 seconds, the change is refused, unless
// FailurePolicy says otherwise. What it changes of the object is of no effect.
func (h *Handlers[T]) Validate(fn ReviewFunc[T], options ...ReviewOption) {
	h.registerReview("Validate", fn, options)
}

func (h *Handlers[T]) registerReview(verb string, fn ReviewFunc[T], options []ReviewOption) {
	one := &review[T]{reviewSettings: newReviewSettings(verb), handlers: h, fn: fn}
	for _, o := range options {
		o.applyToReview(one.reviewSettings)
	}
	if one.name == "" || fn == nil {
		name, err := funcName(reflect.ValueOf(fn).Pointer())
		if err != nil {
			h.c.problems = append(h.c.problems, err)
		}
		one.name = name
	}
	h.reviews = append(h.reviews, one)
}

// Admit asks the function. It makes a hook.Admitter of the review.
func (v *review[T]) Admit(ctx context.Context, req *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	app := v.handlers.c.app
	if err := app.waitForIndexes(ctx); err != nil {
		return nil, err
	}
	r, err := newReview(v, req)
	if err != nil {
		return nil, err
	}
	w := app.inFlight.begin("review", v.name, &r.objectContext)
	defer app.inFlight.end(w)
	return r.respond(v.fn(ctx, r))
}

// admissionProgram makes the program of the reviews; nil if there are none.
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
		if h.c.limitedTo(w.ExemptNamespaces) {
			return nil, &compile.Refusal{Reason: api.ReasonInvalidSpec, Err: fmt.Errorf(
				"%s %q: is limited to the namespaces %s, which are left alone unless you say setpoint.Everywhere()",
				one.verb, one.name, strings.Join(h.c.runNamespaces, ", "))}
		}
		p.Webhooks = append(p.Webhooks, w)
	}
	// The API server asks them in the order of their configuration anyhow.
	slices.SortStableFunc(p.Webhooks, func(a, b admission.Webhook) int { return reviewOrder(a) - reviewOrder(b) })
	return p, nil
}

// reviewOrder puts webhooks that mutate before those that do not.
func reviewOrder(w admission.Webhook) int {
	if w.Mutates {
		return 0
	}
	return 1
}

// limitedTo says that a run is limited to namespaces that are all among some.
func (c *controller) limitedTo(some []string) bool {
	return len(c.runNamespaces) > 0 && !slices.ContainsFunc(c.runNamespaces, func(one string) bool { return !slices.Contains(some, one) })
}

// namespaceRequirements selects the namespaces of a run that is limited to some; nil for all. What
// lives in none is not asked of its namespace.
func (c *controller) namespaceRequirements(of object.Resource) []metav1.LabelSelectorRequirement {
	if len(c.runNamespaces) == 0 || !of.Namespaced {
		return nil
	}
	return []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: c.runNamespaces}}
}

// Reviewer is Handler for the functions of Mutate and Validate.
func (a *App) Reviewer(name string) (hook.Admitter, error) {
	return findFunction(a, name, func(p registration, name string) (hook.Admitter, bool) {
		v := p.findReview(name)
		return v, v != nil
	})
}

func (h *Handlers[T]) findReview(name string) hook.Admitter {
	for _, one := range h.reviews {
		if one.name == name {
			return one
		}
	}
	return nil
}

func (c *Composer[T]) findReview(string) hook.Admitter { return nil }

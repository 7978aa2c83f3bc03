package sdk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Webhook is one admission webhook: a function and its options.
type Webhook struct {
	problems

	// Spec is the webhook as the program has it.
	Spec admission.Webhook
	// Admitter calls the function.
	Admitter hook.Admitter
	// Subresources are reviewed instead of the object itself, which is "".
	Subresources []string
	// Labels and NamespaceLabels are selectors that must all match.
	Labels, NamespaceLabels []string
	// SystemNamespaces reviews their objects, too.
	SystemNamespaces bool

	// verb is Mutate or Validate.
	verb, name string
	operations []hook.Operation
}

// NewWebhook returns the admission webhook of Mutate or Validate.
func NewWebhook(verb, name string) *Webhook {
	mutates := verb == "Mutate"
	return &Webhook{verb: verb, name: name, Spec: admission.Webhook{
		Name: name, Mutates: mutates, Ignore: mutates, Timeout: api.DefaultAdmissionTimeoutSeconds * time.Second,
	}}
}

// AddOperations adds operations to review.
func (w *Webhook) AddOperations(operations ...hook.Operation) {
	w.operations = lists.Union(w.operations, operations)
}

// SetTimeout accepts what the API server accepts.
func (w *Webhook) SetTimeout(d time.Duration) {
	w.when(d < time.Second || d > 30*time.Second || d%time.Second != 0, "Timeout(%s): must be whole seconds, 1s to 30s", d)
	w.Spec.Timeout = d
}

// Reinvoke calls a mutating function again when a later webhook changed the object.
func (w *Webhook) Reinvoke() {
	w.Spec.Reinvoke = true
	w.when(!w.Spec.Mutates, "Reinvoke: requires Mutate")
}

func (w *Webhook) effectiveOperations() []hook.Operation {
	switch {
	case len(w.operations) > 0:
		return w.operations
	case w.Spec.Mutates:
		return []hook.Operation{hook.OperationCreate}
	}
	return []hook.Operation{hook.OperationCreate, hook.OperationUpdate}
}

// webhook returns the webhook without its function.
func (w *Webhook) webhook(c *Controller, of object.Resource) admission.Webhook {
	spec := w.Spec
	rule := admission.Rule{Group: of.Group, Version: of.Version}
	for _, sub := range w.Subresources {
		rule.Resources = append(rule.Resources, strings.TrimSuffix(of.Plural+"/"+sub, "/"))
	}
	if len(rule.Resources) == 0 {
		rule.Resources = []string{of.Plural}
	}
	rule.Operations = w.effectiveOperations()
	spec.Rules = []admission.Rule{rule}
	// What is wrong with them has been said.
	spec.Objects, _ = admission.ParseSelectors(append(slices.Clip(w.Labels), c.Labels)...)
	spec.Namespaces, _ = admission.ParseSelectors(w.NamespaceLabels...)
	if some := c.namespacesFor(of); len(some) > 0 {
		spec.Namespaces = compile.InNamespaces(spec.Namespaces, some)
	}
	return spec
}

func (w *Webhook) check(c *Controller) []error {
	p := slices.Clone(w.problems)
	known := []hook.Operation{hook.OperationCreate, hook.OperationUpdate, hook.OperationDelete, hook.OperationConnect}
	for _, one := range w.operations {
		p.when(!slices.Contains(known, one), "On: unknown operation %q: must be CREATE, UPDATE, DELETE or CONNECT", one)
		p.when(one == hook.OperationDelete && w.Spec.Mutates, "On: Mutate does not support DELETE, which stores no object; use Validate")
	}
	for _, sub := range w.Subresources {
		p.when(len(validation.IsDNS1123Subdomain(sub)) > 0 && sub != "" && sub != "*", "Subresources: %q is not a subresource", sub)
	}
	named := map[string]bool{}
	for _, one := range w.Spec.Conditions {
		p.when(len(validation.IsQualifiedName(one.Name)) > 0, "Match: the name %q must be letters, digits, dashes, dots and underscores",
			one.Name)
		p.when(named[one.Name], "Match: duplicate name %q", one.Name)
		p.when(strings.TrimSpace(one.Expression) == "", "Match(%q): the expression is empty", one.Name)
		named[one.Name] = true
	}
	p.when(len(named) > maxConditions, "Match: at most %d conditions are allowed, not %d", maxConditions, len(named))
	_, err := admission.ParseSelectors(append(slices.Clip(w.Labels), c.Labels)...)
	p.when(err != nil, "Labels: %w", err)
	_, err = admission.ParseSelectors(w.NamespaceLabels...)
	p.when(err != nil, "NamespaceLabels: %w", err)
	p.when(c.Fields != "", "FieldSelector: the API server does not select by fields before it stores an object; "+
		"use setpoint.Match, or decide in the function, and register the handlers with another For and setpoint.Name")
	p.add(validateName(w.name))
	p.when(admission.ExemptGroup(c.Kind.Group().Group), "webhooks cannot review %s: users need them to repair a program that is down",
		c.Kind)
	return p.of(fmt.Sprintf("%s %q of %s", w.verb, w.name, c.name()))
}

// maxConditions is the limit of the API server.
const maxConditions = 64

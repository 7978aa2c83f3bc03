package setpoint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reviewSettings are the options of an admission webhook.
type reviewSettings struct {
	// verb is Mutate or Validate.
	verb, name string
	// hook is the webhook as the program has it.
	hook         admission.Webhook
	operations   []Operation
	subresources []string
	// labels and namespaceLabels are selectors that must all match.
	labels, namespaceLabels []string
	systemNamespaces        bool
	problems                []error
}

func newReviewSettings(verb, name string) *reviewSettings {
	mutates := verb == "Mutate"
	return &reviewSettings{verb: verb, name: name, hook: admission.Webhook{
		Name: name, Mutates: mutates, Ignore: mutates, Timeout: api.DefaultAdmissionTimeoutSeconds * time.Second,
	}}
}

func (s *reviewSettings) addProblem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf(format, args...))
}

func (s *reviewSettings) effectiveOperations() []Operation {
	switch {
	case len(s.operations) > 0:
		return s.operations
	case s.hook.Mutates:
		return []Operation{OperationCreate}
	}
	return []Operation{OperationCreate, OperationUpdate}
}

// webhook returns the webhook without its function.
func (s *reviewSettings) webhook(c *controller, of object.Resource) admission.Webhook {
	w := s.hook
	rule := admission.Rule{Group: of.Group, Version: of.Version}
	for _, sub := range s.subresources {
		rule.Resources = append(rule.Resources, strings.TrimSuffix(of.Plural+"/"+sub, "/"))
	}
	if len(rule.Resources) == 0 {
		rule.Resources = []string{of.Plural}
	}
	rule.Operations = s.effectiveOperations()
	w.Rules = []admission.Rule{rule}
	// What is wrong with them has been said.
	objects, _ := requirements(append(slices.Clip(s.labels), c.labels))
	namespaces, _ := requirements(s.namespaceLabels)
	w.Objects, w.Namespaces = selectorOf(objects), selectorOf(namespaces)
	if some := c.namespacesFor(of); len(some) > 0 {
		w.Namespaces = compile.InNamespaces(w.Namespaces, some)
	}
	return w
}

// requirements returns the requirements of label selectors.
func requirements(selectors []string) ([]metav1.LabelSelectorRequirement, error) {
	var all []metav1.LabelSelectorRequirement
	for _, text := range selectors {
		parsed, err := labels.ParseToRequirements(text)
		if err != nil {
			return nil, err
		}
		for _, one := range parsed {
			required := metav1.LabelSelectorRequirement{Key: one.Key(), Values: one.ValuesUnsorted()}
			switch one.Operator() {
			case selection.In, selection.Equals, selection.DoubleEquals:
				required.Operator = metav1.LabelSelectorOpIn
			case selection.NotIn, selection.NotEquals:
				required.Operator = metav1.LabelSelectorOpNotIn
			case selection.Exists:
				required.Operator = metav1.LabelSelectorOpExists
			case selection.DoesNotExist:
				required.Operator = metav1.LabelSelectorOpDoesNotExist
			case selection.GreaterThan, selection.LessThan:
				return nil, fmt.Errorf("%q: webhooks do not support comparisons", text)
			}
			slices.Sort(required.Values)
			all = append(all, required)
		}
	}
	return all, nil
}

// selectorOf returns a selector of requirements, or nil.
func selectorOf(all []metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	if len(all) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: all}
}

func (s *reviewSettings) check(c *controller) []error {
	all := *s
	all.problems = slices.Clone(s.problems)
	all.checkOperations()
	all.checkConditions()
	for _, one := range []struct {
		option    string
		selectors []string
	}{{"Labels", append(slices.Clip(s.labels), c.labels)}, {"NamespaceLabels", s.namespaceLabels}} {
		if _, err := requirements(one.selectors); err != nil {
			all.addProblem("%s: %w", one.option, err)
		}
	}
	if c.fields != "" {
		all.addProblem("FieldSelector: the API server does not select by fields before it stores an object; " +
			"use setpoint.Match, or decide in the function, and register the handlers with another For and setpoint.Name")
	}
	if err := validateName(s.name); err != nil {
		all.problems = append(all.problems, err)
	}
	if admission.ExemptGroup(c.kind.group().Group) {
		all.addProblem("webhooks cannot review %s: users need them to repair a program that is down", c.kind)
	}
	for i, err := range all.problems {
		all.problems[i] = fmt.Errorf("%s %q of %s: %w", s.verb, s.name, c.name(), err)
	}
	return all.problems
}

func (s *reviewSettings) checkOperations() {
	for _, one := range s.operations {
		switch {
		case !slices.Contains([]Operation{OperationCreate, OperationUpdate, OperationDelete, OperationConnect}, one):
			s.addProblem("On: unknown operation %q: must be CREATE, UPDATE, DELETE or CONNECT", one)
		case one == OperationDelete && s.hook.Mutates:
			s.addProblem("On: Mutate does not support DELETE, which stores no object; use Validate")
		}
	}
	for _, sub := range s.subresources {
		if len(validation.IsDNS1123Subdomain(sub)) > 0 && sub != "" && sub != "*" {
			s.addProblem("Subresources: %q is not a subresource", sub)
		}
	}
}

// maxConditions is the limit of the API server.
const maxConditions = 64

func (s *reviewSettings) checkConditions() {
	named := map[string]bool{}
	for _, one := range s.hook.Conditions {
		switch {
		case len(validation.IsQualifiedName(one.Name)) > 0:
			s.addProblem("Match: the name %q must be letters, digits, dashes, dots and underscores", one.Name)
		case named[one.Name]:
			s.addProblem("Match: duplicate name %q", one.Name)
		case strings.TrimSpace(one.Expression) == "":
			s.addProblem("Match(%q): the expression is empty", one.Name)
		}
		named[one.Name] = true
	}
	if len(named) > maxConditions {
		s.addProblem("Match: at most %d conditions are allowed, not %d", maxConditions, len(named))
	}
}

func (h *Handlers[T]) checkReviews() []error {
	var problems []error
	named := map[string]bool{}
	for _, one := range h.reviews {
		problems = append(problems, one.check(&h.c)...)
		if named[one.name] {
			problems = append(problems, fmt.Errorf("two admission webhooks of %[2]s are named %[1]q: rename one of them",
				one.name, h.c.name()))
		}
		named[one.name] = true
	}
	if len(h.reviews) > 0 && len(h.handlers)+len(h.c.indexes) == 0 && h.c.declaresHandlerAccess() {
		problems = append(problems, fmt.Errorf("%s: Owns, Applies, Deletes, Evicts and Reads require a handler", h.c.name()))
	}
	return problems
}

// declaresHandlerAccess reports whether something is declared that only handlers do.
func (c *controller) declaresHandlerAccess() bool {
	return len(c.owns)+len(c.applies)+len(c.deletes)+len(c.reads) > 0 || c.evicts
}

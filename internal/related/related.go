// Package related finds the related objects that a customize hook selects, and the parents to
// enqueue when one of them changes.
//
// It validates and resolves the rules, shares their watches, and indexes the rules, so that an event neither visits all
// parents nor calls a hook. Package composite calls the customize hook.
package related

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// RuleError is an invalid rule in a customize response.
type RuleError struct {
	// Path is the field, such as "relatedResources[1].namespace".
	Path string
	// Problem says what is wrong and what to do.
	Problem string
	// Err is the error of finding the kind; nil if the rule is invalid.
	Err error
}

func (e *RuleError) Error() string {
	if e.Err == nil {
		return e.Path + ": " + e.Problem
	}
	return e.Path + ": " + e.Problem + ": " + e.Err.Error()
}

func (e *RuleError) Unwrap() error { return e.Err }

// resolver finds the resource of a kind.
type resolver func(ctx context.Context, apiVersion, plural string) (object.Resource, error)

// Scope limits what the rules of a customize hook may select.
type Scope struct {
	// Version of the customize hook. In v1 those of a namespaced parent select in its namespace only.
	Version hook.Version
	// Namespaced means that the parents are namespaced.
	Namespaced bool
	// Namespaces are those of the process, in which rules may select; empty for all. A rule that names another
	// one is invalid. Those of the parents are no limit: what a rule selects is missing without a word
	// otherwise, and a hook that makes children of it would delete them.
	Namespaces []string
}

// patterns returns those of the rules of a parent in a namespace, or the first fault.
func (s Scope) patterns(ctx context.Context, rules []hook.RelatedRule, namespace string, find resolver) ([]pattern, error) {
	if err := checkLimits(rules); err != nil {
		return nil, err
	}
	var patterns []pattern
	for i, rule := range rules {
		one, fault := s.patternOf(ctx, rule, namespace, find)
		if fault != nil {
			fault.Path = pathOf(i, fault.Path)
			return nil, fault
		}
		patterns = append(patterns, s.perNamespace(one)...)
	}
	return patterns, nil
}

// patternOf returns the pattern of a rule, or its first fault with the path below the rule.
func (s Scope) patternOf(ctx context.Context, rule hook.RelatedRule, namespace string, find resolver) (pattern, *RuleError) {
	if fault := validateRule(rule); fault != nil {
		return pattern{}, fault
	}
	resource, err := find(ctx, rule.APIVersion, rule.Resource)
	if err != nil {
		return pattern{}, &RuleError{Path: "resource", Problem: "find " + rule.Resource, Err: err}
	}
	return s.newPattern(rule, resource, namespace)
}

func faultOf(field, problem string) *RuleError { return &RuleError{Path: field, Problem: problem} }

// The limits of the rules of one parent. Each Secret that they name has a watch of its own.
const (
	maxRules = 1000
	maxNames = 1000
)

// checkLimits refuses too many rules, or too many names in all of them together.
func checkLimits(rules []hook.RelatedRule) error {
	if len(rules) > maxRules {
		return &RuleError{Path: "relatedResources",
			Problem: fmt.Sprintf("has %d rules; at most %d are allowed: select more objects with each rule, by labelSelector",
				len(rules), maxRules)}
	}
	names := 0
	for i, rule := range rules {
		if names += len(rule.Names); names > maxNames {
			return &RuleError{Path: pathOf(i, "names"), Problem: fmt.Sprintf("the rules up to this one have %d names; at most %d are "+
				"allowed: select the objects by labelSelector", names, maxNames)}
		}
	}
	return nil
}

func pathOf(rule int, field string) string {
	return fmt.Sprintf("relatedResources[%d].%s", rule, field)
}

// validateRule checks what does not depend on the kind.
func validateRule(rule hook.RelatedRule) *RuleError {
	named, labelled, spaced := len(rule.Names) > 0, rule.LabelSelector != nil, rule.NamespaceSelector != nil
	switch {
	case rule.APIVersion == "":
		return faultOf("apiVersion", `required, such as "v1" or "apps/v1"`)
	case rule.Resource == "":
		return faultOf("resource", `required: the plural name of a kind, such as "configmaps"`)
	case named && labelled:
		return faultOf("names", "cannot be combined with labelSelector; give one of them")
	case named && spaced:
		return faultOf("names", "cannot be combined with namespaceSelector; give one of them")
	case rule.Namespace != "" && spaced:
		return faultOf("namespace", "cannot be combined with namespaceSelector; give one of them")
	}
	return nil
}

func (s Scope) newPattern(rule hook.RelatedRule, resource object.Resource, parent string) (pattern, *RuleError) {
	p := pattern{resource: resource, names: normalizeNames(rule.Names), labels: labels.Everything()}
	var fault *RuleError
	if p.namespace, fault = s.namespaceFor(rule, resource, parent); fault != nil {
		return p, fault
	}
	var err error
	if rule.LabelSelector != nil {
		if p.labels, err = metav1.LabelSelectorAsSelector(rule.LabelSelector); err != nil {
			return p, faultOf("labelSelector", err.Error())
		}
	}
	if rule.NamespaceSelector != nil {
		if p.namespaceLabels, err = metav1.LabelSelectorAsSelector(rule.NamespaceSelector); err != nil {
			return p, faultOf("namespaceSelector", err.Error())
		}
	}
	return p, nil
}

// namespaceFor returns the only namespace in which a rule selects; empty for any.
func (s Scope) namespaceFor(rule hook.RelatedRule, resource object.Resource, parent string) (string, *RuleError) {
	switch {
	case !resource.Namespaced && rule.NamespaceSelector != nil:
		return "", faultOf("namespaceSelector", rule.Resource+" are cluster-scoped; select them by labelSelector or names")
	case !resource.Namespaced:
		return "", nil
	case rule.Namespace != "" && len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, rule.Namespace):
		return "", faultOf("namespace", fmt.Sprintf("%q is not one of the namespaces that Setpoint is limited to, %s",
			rule.Namespace, strings.Join(s.Namespaces, ", ")))
	case !s.ownNamespaceOnly():
		return rule.Namespace, nil
	case rule.NamespaceSelector != nil:
		return "", faultOf("namespaceSelector", fmt.Sprintf("a customize hook of version v1 may only select in the namespace of the "+
			"parent, %q; set the hook's version to v2 to select in others", parent))
	case rule.Namespace != "" && rule.Namespace != parent:
		return "", faultOf("namespace", fmt.Sprintf("%q is not the namespace of the parent, %q, and a customize hook of version v1 "+
			"may only select there; set the hook's version to v2 to select in others", rule.Namespace, parent))
	}
	return parent, nil
}

// normalizeNames sorts names and drops empty ones, of fields that are not set. Only empty names select nothing.
func normalizeNames(requested []string) []string {
	if len(requested) == 0 {
		return nil
	}
	names := slices.DeleteFunc(slices.Clone(requested), func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

// PollInterval is how often the lists of related objects are looked at outside of runs.
const PollInterval = 20 * time.Millisecond

// NamespacesOf returns the namespaces in which rules of a parent's namespace may select objects of a kind, "" for all.
func (s Scope) NamespacesOf(resource object.Resource, parent string) []string {
	if s.ownNamespaceOnly() {
		return resource.In([]string{parent})
	}
	return resource.In(s.Namespaces)
}

// ownNamespaceOnly reports whether rules select only in the namespace of the parent.
func (s Scope) ownNamespaceOnly() bool { return s.Version == hook.V1 && s.Namespaced }

// perNamespace splits a pattern for all namespaces into one for each allowed namespace.
func (s Scope) perNamespace(p pattern) []pattern {
	if len(s.Namespaces) == 0 || p.namespace != "" || !p.resource.Namespaced {
		return []pattern{p}
	}
	var all []pattern
	for _, p.namespace = range s.Namespaces {
		all = append(all, p)
	}
	return all
}

package compile

import (
	"cmp"
	"encoding/json"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// neutralSpec is the spec of a controller with hooks, of any kind and group.
type neutralSpec struct {
	// targets are the parents: one for a composite, several for a decorator.
	targets  []target
	children []childRule
	hooks    hooks
	// program has what the spec says about the programs of all parents, and the names on objects.
	program   composite.Program
	suspended bool
	identity  api.Identity
	// conditions means that parents get Setpoint's conditions.
	conditions bool
	// rollout is nil if changed hooks apply to all parents at once.
	rollout *api.Rollout
	notes   []string
	// unserved are the kinds of targets that are not served any more.
	unserved []object.Resource
}

// controllerSpec is the spec of a CompositeController or a DecoratorController, which calls the
// parents and children by other names.
type controllerSpec struct {
	api.CompositeControllerSpec `json:",inline"`

	ParentResource parentRule          `json:"parentResource"`
	Resources      []parentRule        `json:"resources"`
	Attachments    []api.ChildResource `json:"attachments"`
}

// parentRule selects parents, in the words of both kinds and groups.
type parentRule struct {
	api.ParentResource `json:",inline"`

	AnnotationSelector  *api.AnnotationSelector `json:"annotationSelector"`
	IgnoreStatusChanges bool                    `json:"ignoreStatusChanges"`
}

func (s *controllerSpec) targets(k Kind) []target {
	var all []target
	for field, r := range each(k.isDecorator(), "spec.resources", s.Resources, "spec.parentResource", s.ParentResource) {
		all = append(all, target{
			resourceRef: resourceRef{field, r.APIVersion, r.Resource},
			labels:      r.LabelSelector,
			annotations: r.AnnotationSelector,
			namespaces:  r.Namespaces,
			// Hooks for Metacontroller may depend on status changes, such as a decorator of pods.
			syncOnStatusChange: r.SyncOnStatusChange || k.Metacontroller() && !r.IgnoreStatusChanges,
		})
	}
	return all
}

// target is a rule for parents.
type target struct {
	resourceRef
	labels             *metav1.LabelSelector
	annotations        *api.AnnotationSelector
	namespaces         []string
	syncOnStatusChange bool
}

// selection parses the selectors of a target. An empty selector counts as none.
func (t *target) selection() (composite.Selection, error) {
	byLabels, err := metav1.LabelSelectorAsSelector(cmp.Or(t.labels, &metav1.LabelSelector{}))
	if err != nil {
		return composite.Selection{}, invalid("%s.labelSelector: %w", t.field, err)
	}
	byAnnotations, err := annotationSelector(cmp.Or(t.annotations, &api.AnnotationSelector{}))
	if err != nil {
		return composite.Selection{}, invalid("%s.annotationSelector: %w", t.field, err)
	}
	return composite.Selection{Labels: unlessEmpty(byLabels), Annotations: unlessEmpty(byAnnotations)}, nil
}

// annotationSelector parses a selector. It allows any annotation value, not only valid label
// values.
func annotationSelector(a *api.AnnotationSelector) (labels.Selector, error) {
	rest, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: a.MatchExpressions})
	if err != nil {
		return nil, err
	}
	requirements, _ := rest.Requirements()
	return labels.SelectorFromValidatedSet(a.MatchAnnotations).Add(requirements...), nil
}

func unlessEmpty(s labels.Selector) labels.Selector {
	if s.Empty() {
		return nil
	}
	return s
}

func selectsAll(s composite.Selection) bool { return s.Labels == nil && s.Annotations == nil }

// each returns the parents with the paths of their fields: the list of a DecoratorController, or
// the one parent of a CompositeController.
func each[T any](listed bool, list string, all []T, field string, one T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		if !listed {
			yield(field, one)
			return
		}
		for i, item := range all {
			if !yield(index(list, i), item) {
				return
			}
		}
	}
}

// childRule is a rule for children. The Resource of its rule is not set yet.
type childRule struct {
	resourceRef
	rule plan.Rule
}

// ruleOf returns the rule for children of a kind, whose resource is not known yet.
func ruleOf(c api.ChildResource) plan.Rule {
	rule := plan.Rule{
		Method:         plan.UpdateMethod(cmp.Or(c.UpdateStrategy.Method, api.DefaultUpdateMethod)),
		Strategy:       plan.ApplyStrategy(cmp.Or(c.Apply, api.DefaultApplyStrategy)),
		MaxUnavailable: int(c.UpdateStrategy.MaxUnavailable),
	}
	if checks := c.UpdateStrategy.StatusChecks; checks != nil {
		for _, check := range checks.Conditions {
			rule.StatusChecks = append(rule.StatusChecks, plan.StatusCheck(check))
		}
	}
	return rule
}

// readPaths parses the paths of the fields that make a revision.
func readPaths(texts []string, read func(string) ([]string, error)) ([][]string, error) {
	var paths [][]string
	for i, text := range texts {
		path, err := read(text)
		if err != nil {
			return nil, invalid("%s: %w", index("spec.parentResource.revisionHistory.fieldPaths", i), err)
		}
		// Like a handler that watches a whole object, a revision has what users set.
		if !new(trigger.Handler).Watches(path) {
			return nil, invalid("%s: %q changes with every write, so each write would make a revision; use fields of the spec, labels "+
				"or annotations",
				index("spec.parentResource.revisionHistory.fieldPaths", i), text)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// draft returns what all programs of a controller have in common.
func (k Kind) draft(o *object.Object, d *neutralSpec, env Environment) composite.Program {
	p := d.program
	p.Name, p.Object = k.Name+"/"+o.Name(), k.objectForHooks(o, p.FullObjects)
	p.Finalizer, p.Manager = k.finalizer(o.Name()), k.manager(o.Name(), env)
	p.Workers, p.Resync, p.Revisions.Namespace = env.Workers, composite.ShorterDelay(p.Resync, env.Resync), env.Namespace
	p.Account = env.AccountOf(d.identity)
	if k.isDecorator() {
		p.Mark = plan.Mark{Key: plan.DecoratorMark, Value: o.Name()}
		if k.Metacontroller() {
			p.Mark.Key = plan.MetacontrollerDecoratorMark
		}
	}
	return p
}

// objectForHooks returns the controller as hooks get it. It has no status, which changes with every
// run. Metacontroller sends an empty one.
func (k Kind) objectForHooks(o *object.Object, full bool) json.RawMessage {
	if full {
		return o.JSONWithManagedFields()
	}
	var status []byte
	if k.Metacontroller() {
		status = []byte("{}")
	}
	return snapshot(o, status)
}

// StoredStatus returns the status of a controller object; the zero value if it is invalid.
func StoredStatus(o *object.Object) api.ControllerStatus {
	var stored api.ControllerStatus
	if field := o.Field("status"); field != nil && json.Unmarshal(field, &stored) != nil {
		return api.ControllerStatus{}
	}
	return stored
}

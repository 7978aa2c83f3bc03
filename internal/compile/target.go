package compile

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
)

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

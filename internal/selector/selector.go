// Package selector reads the selectors by which parents adopt children, and finds the parents whose selectors match an
// orphan.
package selector

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Of returns the selector of a parent's children.
func Of(parent *object.Object, generated bool) (labels.Selector, error) {
	if generated {
		return labels.SelectorFromSet(labels.Set{plan.UIDLabel: strings.Clone(parent.UID())}), nil
	}
	field := parent.Field("spec", "selector")
	if field == nil {
		return nil, errors.New("spec.selector: required, unless the controller sets generateSelector")
	}
	var declared metav1.LabelSelector
	if err := json.Unmarshal(field, &declared); err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if len(declared.MatchLabels)+len(declared.MatchExpressions) == 0 {
		return nil, errors.New("spec.selector: must have matchLabels or matchExpressions; an empty selector would match everything")
	}
	parsed, err := metav1.LabelSelectorAsSelector(&declared)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return parsed, nil
}

// RequiredLabels returns labels of which a matching object has at most one: the values of the requirement with the
// fewest; nil if none is required.
func RequiredLabels(selector labels.Selector) []object.Label {
	requirements, _ := selector.Requirements()
	var required []object.Label
	for _, r := range requirements {
		values := r.Values().UnsortedList()
		if !requiresValue(r.Operator()) || required != nil && len(values) >= len(required) {
			continue
		}
		required = make([]object.Label, len(values))
		for i, value := range values {
			required[i] = object.Label{Key: r.Key(), Value: value}
		}
	}
	return required
}

func requiresValue(operator selection.Operator) bool {
	return operator == selection.Equals || operator == selection.DoubleEquals || operator == selection.In
}

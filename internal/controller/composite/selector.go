package composite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// selectorOf returns the selector of a parent's children.
func selectorOf(parent *object.Object, generated bool) (labels.Selector, error) {
	if generated {
		return labels.SelectorFromSet(labels.Set{plan.UIDLabel: strings.Clone(parent.UID())}), nil
	}
	field := parent.Field("spec", "selector")
	if field == nil {
		return nil, errors.New("spec.selector: required, unless the controller sets generateSelector")
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal(field, &selector); err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil, errors.New("spec.selector: must have matchLabels or matchExpressions; an empty selector would match everything")
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return parsed, nil
}

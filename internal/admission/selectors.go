package admission

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// ParseSelectors returns a selector of the objects that match all label selectors; nil for all objects. A webhook cannot
// compare values with numbers.
func ParseSelectors(texts ...string) (*metav1.LabelSelector, error) {
	var all []metav1.LabelSelectorRequirement
	for _, text := range texts {
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
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // Every object matches.
	}
	return &metav1.LabelSelector{MatchExpressions: all}, nil
}

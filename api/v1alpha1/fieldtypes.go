package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnnotationSelector is a label selector for annotations.
type AnnotationSelector struct {
	// matchAnnotations are annotations an object must have, with these values.
	// +optional
	MatchAnnotations map[string]string `json:"matchAnnotations,omitempty"`

	// matchExpressions are requirements an object must meet, all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// Expression is a CEL expression that returns a bool. It has the variables that its field names. It may use the
// standard library, optional types, two-variable comprehensions, and the extensions strings, lists, sets and
// math.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type Expression string

// PositiveDuration is a duration greater than zero, such as 500ms or 1h30m.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') && size(self) > 0 && duration(self) > duration('0s')",message="must be a duration greater than zero, such as 500ms or 1h30m, and less than 1000000h"
type PositiveDuration struct {
	metav1.Duration `json:",inline"`
}

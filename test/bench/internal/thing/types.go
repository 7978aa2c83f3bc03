package thing

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Thing is one parent.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Spec is what is wanted.
type Spec struct {
	Value    string `json:"value"`
	Children int    `json:"children"`
	// Padding is the size of a text that each child holds beside the value, in
	// bytes.
	Padding int `json:"padding,omitempty"`
	// Shared names a ConfigMap beside the parent that every contender has to read.
	// No write depends on it.
	Shared string `json:"shared,omitempty"`
}

// Status is the observed state.
type Status struct {
	Ready              int    `json:"ready"`
	Value              string `json:"value"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

// ThingList is a list of parents.
type ThingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Thing `json:"items"`
}

// DeepCopy returns an independent copy.
func (t *Thing) DeepCopy() *Thing {
	out := *t
	out.ObjectMeta = *t.ObjectMeta.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (t *Thing) DeepCopyObject() runtime.Object { return t.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *ThingList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = make([]Thing, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}

package kinds

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Nested returns the value at a path; nil if there is none.
func Nested(o *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return value
}

// SetNested sets the value at a path; nil removes it. A parent of another type has been refused before.
func SetNested(o *unstructured.Unstructured, value any, path ...string) {
	if value == nil {
		unstructured.RemoveNestedField(o.Object, path...)
		return
	}
	_ = unstructured.SetNestedField(o.Object, value, path...)
}

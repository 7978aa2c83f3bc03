package manifest

import (
	"hash/fnv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// RefOf identifies an object in any version.
func RefOf(o *unstructured.Unstructured) object.Ref {
	kind := o.GroupVersionKind()
	return object.Ref{Kind: object.Kind{Group: kind.Group, Kind: kind.Kind}, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// stage returns 0 for namespaces and CRDs, which others need, else 1.
func stage(ref object.Ref) int {
	switch ref.GroupKind() {
	case namespaceKind, crdKind:
		return 0
	default:
		return 1
	}
}

var (
	crdKind       = object.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	namespaceKind = object.GroupKind{Kind: "Namespace"}
)

// digest changes when the document does.
func digest(o *unstructured.Unstructured) (uint64, error) {
	text, err := o.MarshalJSON()
	if err != nil {
		return 0, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	return sum.Sum64(), nil
}

package manifest

import (
	"hash/fnv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key identifies an object in any version.
type Key struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

// KeyOf returns the key of an object.
func KeyOf(o *unstructured.Unstructured) Key {
	return Key{Kind: o.GroupVersionKind().GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// String returns "Pod default/web", or "Namespace web".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind.Kind + " " + k.Name
	}
	return k.Kind.Kind + " " + k.Namespace + "/" + k.Name
}

// stage returns 0 for namespaces and CRDs, which others need, else 1.
func (k Key) stage() int {
	switch k.Kind {
	case schema.GroupKind{Kind: "Namespace"}, crdKind:
		return 0
	default:
		return 1
	}
}

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

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

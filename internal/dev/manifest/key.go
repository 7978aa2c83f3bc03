package manifest

import (
	"hash/fnv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key names an object of a manifest. Versions of one kind are one object.
type Key struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

// KeyOf is the name under which the object was written down.
func KeyOf(o *unstructured.Unstructured) Key {
	return Key{Kind: o.GroupVersionKind().GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// String is "Pod default/web", or "Namespace web".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind.Kind + " " + k.Name
	}
	return k.Kind.Kind + " " + k.Namespace + "/" + k.Name
}

// stage puts what others need first: namespaces and definitions of kinds.
func (k Key) stage() int {
	switch k.Kind {
	case schema.GroupKind{Kind: "Namespace"}, crdKind:
		return 0
	default:
		return 1
	}
}

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// digest tells whether a document changed since it was applied.
func digest(o *unstructured.Unstructured) (uint64, error) {
	text, err := o.MarshalJSON()
	if err != nil {
		return 0, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	return sum.Sum64(), nil
}

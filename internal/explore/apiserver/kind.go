package apiserver

import (
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// namespaces is the kind Namespace, which every server has.
//
//nolint:gochecknoglobals // A struct cannot be a constant.
var namespaces = object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", Status: true}

// kind is a kind in one version.
type kind struct {
	object.Resource
	// shelf is the index of its objects in a state; the versions of a kind share one.
	shelf int
	// custom reports whether metadata of a status update is ignored and updates need a resource version.
	custom   bool
	schema   kindSchema
	rules    rules
	managers managers
}

// kindSchema reads and checks objects.
type kindSchema interface {
	// decode reads an object, prunes unknown fields, of which it returns the paths, and sets defaults.
	decode(data []byte) (fields map[string]any, unknown []string, err error)
	// stored returns an object as it is read from the store.
	stored(fields map[string]any) (map[string]any, error)
	// validate checks an object. There is no old one if it is created.
	validate(o, old *unstructured.Unstructured, status bool) field.ErrorList
}

// rules are what the API server knows about a kind besides its schema.
type rules struct {
	// generation reports whether objects have a generation.
	generation bool
	// conditional reports whether updates need a resource version.
	conditional bool
	// createOnUpdate reports whether PUT creates objects.
	createOnUpdate bool
	// returnsDeleted reports whether the response to a deletion is the object that is gone.
	returnsDeleted bool
	// orphans reports whether dependents are orphaned by default.
	orphans bool
	name    validation.ValidateNameFunc
	// prepare changes an object before it is checked. There is no old one if it is created.
	prepare func(o, old *unstructured.Unstructured)
}

// gvk returns the kind for libraries.
func (k *kind) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// groupKind returns the kind in error messages.
func (k *kind) groupKind() schema.GroupKind { return k.gvk().GroupKind() }

// new returns an empty object. That of a Go type has members without values.
func (k *kind) new() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if zero, err := scheme.Scheme.New(k.gvk()); err == nil && !k.custom {
		if fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(zero); err == nil {
			o.Object = fields
			dropEmptyTime(fields)
		}
	}
	o.SetGroupVersionKind(k.gvk())
	return o
}

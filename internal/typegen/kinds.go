package typegen

import (
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

// Kind is a kind and its schema.
type Kind struct {
	object.Kind
	// Schema is the schema of objects; nil if there is none. Definitions are those that it refers to.
	Schema      *spec.Schema
	Definitions schema.Definitions
	// Custom reports whether a CRD defines the kind.
	Custom bool
}

// Resource names a kind as controllers do.
type Resource struct {
	APIVersion string
	Plural     string `json:"resource"`
}

// String returns such as apps/v1/deployments.
func (r Resource) String() string { return r.APIVersion + "/" + r.Plural }

// Sources finds the kind of a resource.
type Sources func(Resource) (Kind, error)

// typedKind is a kind with its types.
type typedKind struct {
	Kind
	name string
	// object is the type of stored objects.
	object *Object
	// reviewed is that of objects before they are stored, which may have no name.
	reviewed *Object
}

// status returns the type of the status, which may have any fields if the kind has none.
func (k *typedKind) status() *Type {
	for _, f := range k.object.fields {
		if f.name == "status" {
			return f.typ
		}
	}
	return mapOf(&Type{})
}

package kinds

import (
	"errors"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// CRDs are schemas of CRDs, for objects that are not stored; nil has none. They are safe for concurrent use.
type CRDs struct{ kinds []*Definition }

// ReadCRDs reads the schemas of CRDs as JSON.
func ReadCRDs(crds ...[]byte) (*CRDs, error) {
	s := &CRDs{}
	for _, crd := range crds {
		kinds, err := Custom(crd)
		if err != nil {
			return nil, err
		}
		s.kinds = append(s.kinds, kinds...)
	}
	return s, nil
}

// of returns the schema of a kind; nil if no CRD has it.
func (s *CRDs) of(apiVersion, kind any) *custom {
	if s == nil {
		return nil
	}
	for _, k := range s.kinds {
		if k.APIVersion() == apiVersion && k.Kind == kind {
			schema, _ := k.Schema.(*custom)
			return schema
		}
	}
	return nil
}

// Default sets the defaults of fields that an object does not have.
func (s *CRDs) Default(fields map[string]any) {
	if schema := s.of(fields["apiVersion"], fields["kind"]); schema != nil {
		defaulting.Default(fields, schema.structural)
	}
}

// Check returns why the API server would not store an object, or which of its fields it would drop.
func (s *CRDs) Check(o *object.Object) error {
	if schema := s.of(o.APIVersion(), o.Kind()); schema != nil {
		return check(schema, o)
	}
	return nil
}

// CheckNew does what Check does, for an object of any kind that is created. A kind without a schema takes all fields.
func (s *CRDs) CheckNew(resource object.Resource, o *object.Object) error {
	definition := &Definition{Resource: resource, Rules: rulesOf(resource)}
	if s.of(o.APIVersion(), o.Kind()) == nil && scheme.Scheme.Recognizes(definition.GVK()) {
		return check(typed{definition}, o)
	}
	return s.Check(o)
}

func check(schema Schema, o *object.Object) error {
	fields, unknown, err := schema.Decode(o.JSON())
	if err != nil {
		return err
	}
	problems := lists.Map(unknown, errors.New)
	for _, each := range schema.Validate(&unstructured.Unstructured{Object: fields}, nil, false) {
		if each.Field != "<nil>" { // That says that rules were not checked because of the others.
			problems = append(problems, each)
		}
	}
	return errors.Join(problems...)
}

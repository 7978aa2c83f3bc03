package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// FromCRD returns the kinds of a CRD, one for each served version.
func FromCRD(text []byte) ([]*Definition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	var kinds []*Definition
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		k, err := newVersion(&crd, version)
		if err != nil {
			return nil, fmt.Errorf("%s, version %s: %w", crd.Name, version.Name, err)
		}
		kinds = append(kinds, k)
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("%s: no version is served", crd.Name)
	}
	return kinds, nil
}

func newVersion(crd *apiextensionsv1.CustomResourceDefinition,
	version apiextensionsv1.CustomResourceDefinitionVersion) (*Definition, error) {
	k := &Definition{Custom: true, Resource: object.Resource{
		Group: crd.Spec.Group, Version: version.Name, Plural: crd.Spec.Names.Plural, Kind: crd.Spec.Names.Kind,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, Custom: true,
		Status: version.Subresources != nil && version.Subresources.Status != nil,
	}}
	k.Rules = Rules{Generation: true, Conditional: true, name: apivalidation.NameIsDNSSubdomain}
	c := &custom{Definition: k}
	if err := c.compile(version.Schema); err != nil {
		return nil, err
	}
	k.Schema = c
	types, err := customTypes(k, c.structural)
	if err != nil {
		return nil, err
	}
	k.Managers, err = newManagers(k, types, true)
	return k, err
}

// custom is the schema of a CRD.
type custom struct {
	*Definition
	structural *structural.Structural
	values     validation.SchemaValidator
	// status checks a status alone; nil if it has no schema.
	status validation.SchemaValidator
	// celRules are those in CEL; nil if there are none.
	celRules *cel.Validator
}

// compile reads the schema as kube-apiserver does.
func (c *custom) compile(given *apiextensionsv1.CustomResourceValidation) error {
	if given == nil || given.OpenAPIV3Schema == nil {
		return errors.New("has no schema")
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(given, &internal,
		nil); err != nil {
		return err
	}
	shape, err := structural.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return err
	}
	c.structural = shape.DeepCopy()
	if err := defaulting.PruneDefaults(c.structural); err != nil {
		return err
	}
	if c.values, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema); err != nil {
		return err
	}
	if status, has := internal.OpenAPIV3Schema.Properties["status"]; has {
		if c.status, _, err = validation.NewSchemaValidator(&status); err != nil {
			return err
		}
	}
	c.celRules = cel.NewValidator(c.structural, true, celconfig.PerCallLimit)
	return nil
}

func (c *custom) Decode(data []byte) (map[string]any, []string, error) {
	fields, strict, err := decodeFields(data)
	if err != nil {
		return nil, nil, err
	}
	unknown, err := c.coerce(fields)
	return fields, append(messages(strict), unknown...), err
}

func (c *custom) Stored(fields map[string]any) (map[string]any, error) { return fields, nil }

// Merged reads what an apply patch was merged into. Nothing is pruned: a field that the merge has made null is invalid.
func (c *custom) Merged(data []byte) (map[string]any, error) {
	fields, _, err := decodeFields(data)
	if err == nil {
		_, err = coerceMetadata(fields)
	}
	defaulting.Default(fields, c.structural)
	return fields, err
}

// coerce prunes and sets defaults. It returns the paths of unknown fields.
func (c *custom) coerce(fields map[string]any) ([]string, error) {
	unknown, err := coerceMetadata(fields)
	if err == nil {
		err = c.checkType(fields)
	}
	if err != nil || fields["kind"] != c.Kind {
		return nil, err
	}
	metadata := fields["metadata"]
	track := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(fields, c.structural, true, track) {
		unknown = append(unknown, fmt.Sprintf("unknown field %q", path))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(fields, c.structural)
	if err, _ := objectmeta.CoerceWithOptions(nil, fields, c.structural, false, objectmeta.CoerceOptions{}); err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = c.APIVersion(), c.Kind
	if metadata != nil {
		fields["metadata"] = metadata
	}
	defaulting.Default(fields, c.structural)
	return unknown, nil
}

// checkType checks the apiVersion of an object, and that it has a kind. Another kind is invalid, which validate says.
func (c *custom) checkType(fields map[string]any) error {
	if kind, _ := fields["kind"].(string); kind == "" {
		return errors.New("Object 'Kind' is missing")
	}
	if fields["apiVersion"] != c.APIVersion() {
		return fmt.Errorf("the API version in the data (%v) does not match the expected API version (%s)",
			fields["apiVersion"], c.APIVersion())
	}
	return nil
}

func (c *custom) Validate(o, old *unstructured.Unstructured, status bool) field.ErrorList {
	if o.GetKind() != c.Kind {
		return field.ErrorList{field.Invalid(field.NewPath("kind"), o.GetKind(), "must be "+c.Kind)}
	}
	errs := validateMetadata(o, old, c.Namespaced, c.Rules.name)
	if old == nil {
		errs = append(errs, validation.ValidateCustomResource(nil, o.Object, c.values)...)
		errs = append(errs, c.validateLists(o)...)
		return append(errs, c.validateRules(o, nil, errs)...)
	}
	both := common.NewCorrelatedObject(o.Object, old.Object, &model.Structural{Structural: c.structural})
	if status {
		errs = append(errs, c.validateStatus(o, old, both)...)
	} else {
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, o.Object, old.Object, c.values,
			validation.WithRatcheting(both))...)
	}
	if len(c.validateLists(old)) == 0 {
		errs = append(errs, c.validateLists(o)...)
	}
	return append(errs, c.validateRules(o, old.Object, errs, cel.WithRatcheting(both))...)
}

func (c *custom) validateStatus(o, old *unstructured.Unstructured, both *common.CorrelatedObject) field.ErrorList {
	status, has := o.Object["status"]
	if !has || c.status == nil {
		return nil
	}
	return validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old.Object["status"], c.status,
		validation.WithRatcheting(both.Key("status")))
}

// validateLists checks that items of lists that are sets or maps are unique, and embedded metadata.
func (c *custom) validateLists(o *unstructured.Unstructured) field.ErrorList {
	return append(objectmeta.Validate(context.Background(), nil, o.Object, c.structural, false),
		listtype.ValidateListSetsAndMaps(nil, c.structural, o.Object)...)
}

// validateRules evaluates rules in CEL, unless values are wrong in a way that would make them fail.
func (c *custom) validateRules(o *unstructured.Unstructured, old any, before field.ErrorList, options ...cel.Option) field.ErrorList {
	if c.celRules == nil {
		return nil
	}
	for _, err := range before {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; "+
				"correct the existing errors to complete validation")}
		}
	}
	errs, _ := c.celRules.Validate(context.Background(), nil, c.structural, o.Object, old, celconfig.RuntimeCELCostBudget, options...)
	return errs
}

// CRDs are schemas of CRDs, for objects that are not stored; nil has none. They are safe for concurrent use.
type CRDs struct{ kinds []*Definition }

// ReadCRDs reads the schemas of CRDs as JSON.
func ReadCRDs(crds ...[]byte) (*CRDs, error) {
	s := &CRDs{}
	for _, crd := range crds {
		kinds, err := FromCRD(crd)
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

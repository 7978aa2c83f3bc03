package operator

import (
	"fmt"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
)

// checkSchema validates the spec of a controller with the schema of its CRD.
func checkSchema(kind, field string, value map[string]any) []error {
	schema, err := specSchema(kind)
	if err != nil {
		return []error{err}
	}
	return validate.NewSchemaValidator(schema, nil, field, strfmt.Default).Validate(value).Errors
}

// specSchema returns the schema of the field spec of a kind.
func specSchema(kind string) (*spec.Schema, error) {
	texts, err := crd.All()
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		var definition struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema spec.Schema }
				}
			}
		}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
		}
		if definition.Spec.Names.Kind == kind && definition.Spec.Group == "setpoint.dev" {
			schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			return &schema, nil
		}
	}
	return nil, fmt.Errorf("no CRD of %s", kind)
}

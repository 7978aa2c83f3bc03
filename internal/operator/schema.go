package operator

import (
	"fmt"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

// checkSchema validates the spec of a controller with the schema of its CRD.
func checkSchema(kind, field string, value map[string]any) []error {
	specified, err := specSchema(kind)
	if err != nil {
		return []error{err}
	}
	return validate.NewSchemaValidator(specified, nil, field, strfmt.Default).Validate(value).Errors
}

// specSchema returns the schema of the field spec of a kind.
func specSchema(kind string) (*spec.Schema, error) {
	texts, err := crd.All()
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		served, err := readCRD(text)
		if err != nil {
			return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
		}
		if served[0].Kind.Kind == kind && served[0].Group == "setpoint.dev" {
			specified := served[0].Schema.Properties["spec"]
			return &specified, nil
		}
	}
	return nil, fmt.Errorf("no CRD of %s", kind)
}

func readCRD(text []byte) ([]schema.Served, error) {
	json, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	return schema.OfCRD(json)
}

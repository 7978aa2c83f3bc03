package test

import (
	"encoding/json"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// checkController returns why the API server would not store a controller, by the schema and the rules of its CRD.
func checkController(o *object.Object) error {
	texts, err := crd.All()
	if err != nil {
		return err
	}
	for _, text := range texts {
		asJSON, err := yaml.YAMLToJSON(text)
		if err != nil {
			return err
		}
		var defined struct {
			Spec struct {
				Group string
				Names struct{ Kind string }
			}
		}
		if err := json.Unmarshal(asJSON, &defined); err != nil {
			return err
		}
		if (object.GroupKind{Group: defined.Spec.Group, Kind: defined.Spec.Names.Kind}) != o.GroupKind() {
			continue
		}
		schemas, err := apiserver.NewSchemas(asJSON)
		if err != nil {
			return err
		}
		return schemas.Check(o)
	}
	return nil
}

package crds

import (
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/must"
)

const conditionsSchema = `conditions: {type: array, items: {type: object, required: [type, status], properties: {
  type: {type: string}, status: {type: string, enum: ["True", "False", Unknown]}, reason: {type: string}, message: {type: string},
  lastTransitionTime: {type: string, format: date-time}, observedGeneration: {type: integer}}}}`

func TestStatusSchema(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   compile.Status
	}{
		"nothing":             {`{type: object}`, compile.Status{}},
		"anything":            {`{type: object, x-kubernetes-preserve-unknown-fields: true}`, compile.Status{Untyped: true}},
		"words, and anything": {`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {conditions: {type: array, items: {type: string}}}}`, compile.Status{}},
		"conditions":          {`{type: object, properties: {` + conditionsSchema + `}}`, compile.Status{Conditions: true}},
		"records":             {`{type: object, properties: {setpointHandledBy: {type: object, additionalProperties: {type: string}}}}`, compile.Status{Records: true}},
		"words":               {`{type: object, properties: {conditions: {type: array, items: {type: string}}}}`, compile.Status{}},
		"a field of its own":  {`{type: object, properties: {` + strings.Replace(conditionsSchema, "[type, status]", "[type, status, zone]", 1) + `}}`, compile.Status{}},
		"without generations": {`{type: object, properties: {` + strings.Replace(conditionsSchema, ", observedGeneration: {type: integer}", "", 1) + `}}`, compile.Status{Conditions: true}},
		"without messages":    {`{type: object, properties: {` + strings.Replace(conditionsSchema, "message: {type: string},", "", 1) + `}}`, compile.Status{}},
		"any conditions":      {`{type: object, properties: {conditions: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}`, compile.Status{Conditions: true}},
		"types of its own":    {`{type: object, properties: {` + strings.Replace(conditionsSchema, "type: {type: string}, status", "type: {type: string, enum: [Ready]}, status", 1) + `}}`, compile.Status{}},
	} {
		all := must.Get(Parse([][]byte{[]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rates.example.org}
spec:
  versions:
  - name: v1
    schema: {openAPIV3Schema: {type: object, properties: {status: ` + c.status + `}}}
  - name: v2
    schema: {openAPIV3Schema: {type: object}}
`)}, false)).In(t)
		for version, want := range map[string]compile.Status{"v1": c.want, "v2": {}, "v3": {}} {
			if got, err := StatusSchema(all[0].Object, version); got != want || err != nil {
				t.Errorf("%s: %s has %+v, want %+v (%v)", name, version, got, want, err)
			}
		}
	}
}

// The CRDs that setpoint init writes hold Setpoint's conditions.
func TestNewOperatorsHaveConditions(t *testing.T) {
	for _, path := range []string{"go/example.com_shops.yaml", "python/crd.yaml", "typescript/crd.yaml"} {
		text := must.Get(os.ReadFile("../../scaffold/testdata/" + path)).In(t)
		all := must.Get(Parse([][]byte{text}, false)).In(t)
		if status, err := StatusSchema(all[0].Object, "v1"); !status.Conditions || err != nil {
			t.Errorf("%s: has no conditions (%v)", path, err)
		}
	}
}

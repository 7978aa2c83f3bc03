package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatusWithConditions(t *testing.T) {
	const crd = `
kind: CustomResourceDefinition
spec:
  group: example.com
  names: {kind: Rate, plural: rates}
  versions:
  - {name: v1, served: true, schema: {openAPIV3Schema: {properties: {status: {properties: {conditions: {type: array}}}}}}}
  - {name: v1beta1, served: true, schema: {openAPIV3Schema: {properties: {status: {type: object}}}}}
`
	var crds CRDs
	if err := crds.Add([]byte(crd)); err != nil {
		t.Fatal(err)
	}
	known := New(&crds, nil)
	got := map[string]bool{}
	for _, k := range []Kind{{"example.com/v1", "Rate"}, {"example.com/v1beta1", "Rate"}, {"example.com/v1", "Other"}, {"v1", "Pod"}} {
		got[k.String()] = known.StatusHas(k, "conditions")
	}
	want := map[string]bool{"Rate of example.com/v1": true, "Rate of example.com/v1beta1": false, "Other of example.com/v1": false, "Pod of v1": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/setpoint-dev/setpoint/internal/must"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
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
	must.Succeed(t, crds.Add([]byte(crd)))
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

// A program may have added its own kinds to client-go's scheme: what they are is in their CRDs.
func TestOwnKindInScheme(t *testing.T) {
	goose := schema.GroupVersionKind{Group: "birds.example.com", Version: "v1", Kind: "Goose"}
	scheme.Scheme.AddKnownTypeWithName(goose, &corev1.ConfigMap{})
	var crds CRDs
	const crd = `{kind: CustomResourceDefinition, spec: {group: birds.example.com, scope: Cluster, names: {kind: Goose, plural: geese},
		versions: [{name: v1, served: true, storage: true}]}}`
	must.Succeed(t, crds.Add([]byte(crd)))
	if r := New(&crds, nil).Resource(Kind{"birds.example.com/v1", "Goose"}); r.Plural != "geese" || r.Namespaced || !r.Custom {
		t.Errorf("%+v", r)
	}
}

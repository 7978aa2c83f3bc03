package compile

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Misspelt fields of controllers in files are named with their path.
func TestCheckFields(t *testing.T) {
	for _, test := range []struct{ manifest, want string }{
		{`{apiVersion: setpoint.dev/v1alpha1, kind: CompositeController, metadata: {name: a}, spec: {parentResource: {apiVersion: v1, resource: pods}}}`, ""},
		{
			`{apiVersion: setpoint.dev/v1alpha1, kind: CompositeController, metadata: {name: a}, spec: {parentResorce: {}, childResources: [{apiVersion: v1, resource: pods, updateStrategy: {metod: Recreate}}]}}`,
			`[unknown field "spec.childResources[0].updateStrategy.metod", unknown field "spec.parentResorce"]`,
		},
		{`{apiVersion: setpoint.dev/v1alpha1, kind: DecoratorController, metadata: {name: a}, spec: {ParentResource: {}}}`, `unknown field "spec.ParentResource"`},
		{`{apiVersion: setpoint.dev/v1alpha1, kind: HandlerController, metadata: {name: a, label: {}}, spec: {}}`, `unknown field "metadata.label"`},
		{`{apiVersion: setpoint.dev/v1alpha1, kind: AdmissionController, metadata: {name: a}, spec: {webhooks: [{nam: a}]}}`, `unknown field "spec.webhooks[0].nam"`},
		{`{apiVersion: metacontroller.k8s.io/v1alpha1, kind: CompositeController, metadata: {name: a}, spec: {generateSelektor: true}}`, `unknown field "spec.generateSelektor"`},
		{`{apiVersion: metacontroller.k8s.io/v1alpha1, kind: DecoratorController, metadata: {name: a}, spec: {resources: text}}`, ""},
	} {
		text, err := yaml.YAMLToJSON([]byte(test.manifest))
		if err != nil {
			t.Fatal(err)
		}
		o, err := object.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := CheckFields(o); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.manifest, got, test.want)
		}
	}
}

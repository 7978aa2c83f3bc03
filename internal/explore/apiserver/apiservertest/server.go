// Package apiservertest has what tests need of an API server in memory: servers, objects in YAML, and a kind with
// defaults, limits and rules.
//
// Tests import it, and nothing else does.
package apiservertest

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Kinds that tests of several packages have.
var (
	ConfigMaps  = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	Pods        = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true}
	Deployments = object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true}
	Widgets     = object.Resource{Group: "example.com", Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true, Status: true,
		Custom: true}
)

// New returns a server with kinds and one CRD in YAML or JSON; "" for none.
func New(t testing.TB, kinds []object.Resource, crd string, namespaces ...string) *apiserver.Server {
	t.Helper()
	options := apiserver.Options{Kinds: kinds, Namespaces: namespaces}
	if crd != "" {
		options.CRDs = [][]byte{JSON(t, crd)}
	}
	server, err := apiserver.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// Parse reads an object in YAML or JSON.
func Parse(t testing.TB, text string) *object.Object {
	t.Helper()
	o, err := object.Parse(JSON(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// JSON returns YAML as JSON.
func JSON(t testing.TB, text string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// WidgetCRD defines Widgets, with a default, limits, rules, and lists that merge in every way.
const WidgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "!has(oldSelf.color) || has(self.color) && self.color == oldSelf.color", message: color is immutable}
            properties:
              size: {type: integer, minimum: 0, maximum: 10, default: 1}
              color: {type: string, enum: [red, blue]}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              names: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              plain: {type: array, items: {type: string}, maxItems: 3}
              text: {type: string, nullable: true}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    value: {type: string, default: none}
          status:
            type: object
            properties:
              ready: {type: boolean}
              count: {type: integer, minimum: 0}
`

package schema_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

func parse(t *testing.T, text string) *spec.Schema {
	t.Helper()
	var s spec.Schema
	must.Succeed(t, json.Unmarshal([]byte(text), &s))
	return &s
}

func TestExample(t *testing.T) {
	for given, want := range map[string]string{
		`{"type":"string"}`:                                    `"example"`,
		`{"type":"string","default":"a"}`:                      `"a"`,
		`{"type":"string","enum":["b","c"]}`:                   `"b"`,
		`{"type":"string","format":"date-time"}`:               `"2026-01-01T00:00:00Z"`,
		`{"type":"string","format":"byte"}`:                    `""`,
		`{"type":"string","minLength":10}`:                     `"examplexxx"`,
		`{"type":"string","maxLength":3}`:                      `"exa"`,
		`{"x-kubernetes-int-or-string":true,"type":"integer"}`: `"example"`,
		`{}`:                             `"example"`,
		`{"type":"boolean"}`:             `true`,
		`{"type":"integer"}`:             `1`,
		`{"type":"integer","minimum":5}`: `5`,
		`{"type":"integer","minimum":5,"exclusiveMinimum":true}`:     `6`,
		`{"type":"integer","minimum":1.5}`:                           `2`,
		`{"type":"integer","maximum":0}`:                             `0`,
		`{"type":"integer","maximum":0,"exclusiveMaximum":true}`:     `-1`,
		`{"type":"integer","maximum":-1.5}`:                          `-2`,
		`{"type":"number","maximum":0.5}`:                            `0.5`,
		`{"type":"integer","multipleOf":4}`:                          `4`,
		`{"type":"integer","minimum":5,"multipleOf":4}`:              `8`,
		`{"type":"array","items":{"type":"string"}}`:                 `[]`,
		`{"type":"array","minItems":2,"items":{"type":"string"}}`:    `["example","example"]`,
		`{"type":"object","additionalProperties":{"type":"string"}}`: `{}`,
		`{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"type":"string","default":"d"},"c":{"type":"string"}}}`: `{"a":"example"}`,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"object","required":["b"],"properties":{"b":{"type":"boolean"}}}}}`:        `{"a":{"b":true}}`,
	} {
		got, err := json.Marshal(schema.Example(parse(t, given)))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, want %s (%v)", given, got, want, err)
		}
	}
}

func TestOfCRD(t *testing.T) {
	const names = `"names":{"kind":"Shop","plural":"shops"}`
	for _, c := range []struct{ name, given, want string }{
		{"no JSON", `{`, "error: unexpected end of JSON input"},
		{"another kind", `{"kind":"Pod"}`, "error: must be a CustomResourceDefinition, not a Pod"},
		{"no group", `{"kind":"CustomResourceDefinition","spec":{` + names + `}}`, "error: spec.group: required"},
		{"no names", `{"kind":"CustomResourceDefinition","spec":{"group":"a.b"}}`, "error: spec.names: kind and plural are required"},
		{"an old version", `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","spec":{"group":"a.b",` + names + `,"version":"v1"}}`, "error: apiVersion: Kubernetes has no apiextensions.k8s.io/v1beta1 any more; write apiextensions.k8s.io/v1, where spec.versions has the schemas"},
		{"no version", `{"kind":"CustomResourceDefinition","spec":{"group":"a.b",` + names + `}}`, "error: spec.versions: none is served"},
		{"not served", `{"kind":"CustomResourceDefinition","spec":{"group":"a.b",` + names + `,"versions":[{"name":"v1","served":false}]}}`, "error: spec.versions: none is served"},
		{"versions", `{"kind":"CustomResourceDefinition","spec":{"group":"a.b",` + names + `,"scope":"Namespaced","versions":[
			{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object"}}},
			{"name":"v2","served":true}, {"name":"v0","served":false}]}}`,
			"a.b/v1 Shop shops namespaced stored status [object], a.b/v2 Shop shops namespaced []"},
		{"cluster", `{"kind":"CustomResourceDefinition","spec":{"group":"a.b",` + names + `,"scope":"Cluster","versions":[{"name":"v1","served":true}]}}`,
			"a.b/v1 Shop shops []"},
	} {
		served, err := schema.OfCRD([]byte(c.given))
		var all []string
		for i := range served {
			all = append(all, describe(&served[i]))
		}
		got := strings.Join(all, ", ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func describe(s *schema.Served) string {
	words := []string{s.APIVersion(), s.Kind.Kind, s.Plural}
	for word, is := range map[string]bool{"namespaced": s.Resource().Namespaced, "stored": s.Stored, "status": s.Resource().Status} {
		if is {
			words = append(words, word)
		}
	}
	slices.SortFunc(words[3:], func(a, b string) int {
		return strings.Index("namespaced stored status", a) - strings.Index("namespaced stored status", b)
	})
	return strings.Join(append(words, "["+strings.Join(s.Schema.Type, " ")+"]"), " ")
}

func TestFlatten(t *testing.T) {
	definitions := schema.Definitions{
		"Text": parse(t, `{"type":"string","description":"A text.","maxLength":3}`),
		"Tree": parse(t, `{"type":"object","properties":{"child":{"$ref":"#/definitions/Tree"}}}`),
		"Both": parse(t, `{"allOf":[{"$ref":"#/definitions/Text"},{"type":"object","required":["a"]}],"description":"Mine.","default":"d"}`),
	}
	for _, c := range []struct {
		given, want string
		refs        []string
		recursive   bool
	}{
		{`{"type":"string"}`, `{"type":"string"}`, nil, false},
		{`{"$ref":"#/definitions/Text"}`, `{"type":"string","description":"A text.","maxLength":3}`, nil, false},
		{`{"$ref":"#/definitions/Text","description":"Other."}`, `{"type":"string","description":"Other.","maxLength":3}`, nil, false},
		{`{"$ref":"#/definitions/Both"}`, `{"type":"string","description":"Mine.","maxLength":3,"required":["a"],"default":"d"}`, nil, false},
		{`{"$ref":"#/definitions/Tree"}`, `{"$ref":"#/definitions/Tree"}`, []string{"Tree"}, true},
		{`{"$ref":"#/definitions/Missing"}`, `{"$ref":"#/definitions/Missing"}`, nil, true},
	} {
		flat, _, recursive := definitions.Flatten(parse(t, c.given), c.refs)
		want := parse(t, c.want)
		if flat.Ref.String() != want.Ref.String() && !recursive {
			flat.Ref = want.Ref // Flatten keeps the reference.
		}
		flat.AllOf = nil
		if diff := cmp.Diff(fields(t, want), fields(t, &flat)); diff != "" || recursive != c.recursive {
			t.Errorf("%s: recursive %t (-want +got):\n%s", c.given, recursive, diff)
		}
	}
	if _, below, _ := definitions.Flatten(parse(t, `{"$ref":"#/definitions/Tree"}`), nil); !slices.Equal(below, []string{"Tree"}) {
		t.Errorf("below the reference: %v", below)
	}
}

// fields returns a schema as JSON values.
func fields(t *testing.T, s *spec.Schema) (all map[string]any) {
	t.Helper()
	must.Succeed(t, json.Unmarshal(must.Get(json.Marshal(s)).In(t), &all))
	return all
}

func TestAlternatives(t *testing.T) {
	for given, want := range map[string]string{
		`{}`: "",
		`{"oneOf":[{"type":"string"},{"type":"number"}]}`:     "number string",
		`{"anyOf":[{"type":"integer"},{"type":"string"}]}`:    "integer string",
		`{"oneOf":[{"type":"string"}],"anyOf":[{"type":""}]}`: " string",
	} {
		if got := schema.Alternatives(parse(t, given)); got != want {
			t.Errorf("%s: %q", given, got)
		}
	}
}

// The definitions of Go types are those of the API server: names, required fields, formats, and types with a JSON form
// of their own.
func TestAddGoType(t *testing.T) {
	definitions := schema.Definitions{}
	root := definitions.AddGoType(reflect.TypeFor[corev1.Container]())
	container := definitions[schema.RefName(&root)]
	if schema.RefName(&root) != "io.k8s.api.core.v1.Container" || container == nil {
		t.Fatalf("%s of %d definitions", root.Ref.String(), len(definitions))
	}
	if !slices.Equal(container.Required, []string{"name", "resources"}) && !slices.Equal(container.Required, []string{"name"}) {
		t.Errorf("required: %v", container.Required)
	}
	if image := container.Properties["image"]; !image.Type.Contains("string") || image.Description == "" {
		t.Errorf("image: %v %q", image.Type, image.Description)
	}
	ports := container.Properties["ports"]
	if !ports.Type.Contains("array") || schema.RefName(ports.Items.Schema) != "io.k8s.api.core.v1.ContainerPort" {
		t.Errorf("ports: %v", ports.Type)
	}
	port := definitions["io.k8s.api.core.v1.ContainerPort"].Properties["containerPort"]
	if !port.Type.Contains("integer") || port.Format != "int32" {
		t.Errorf("containerPort: %v %s", port.Type, port.Format)
	}
	if quantity := definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]; quantity != nil {
		t.Errorf("a quantity has no fields: %v", quantity)
	}
}

package form_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
)

// TestBroadSchemas builds a form from a schema with ten parts on each of ten levels.
func TestBroadSchemas(t *testing.T) {
	known := map[string]*spec.Schema{}
	for level := range 10 {
		var properties []string
		for i := range 10 {
			properties = append(properties, fmt.Sprintf(`p%d: {$ref: "#/components/schemas/L%d"}`, i, level+1))
		}
		known[fmt.Sprintf("L%d", level)] = schemaOf(t, "{type: object, properties: {"+strings.Join(properties, ", ")+"}}")
	}
	known["L10"] = schemaOf(t, "{type: string}")
	f := form.New(schemaOf(t, `{type: object, properties: {spec: {$ref: "#/components/schemas/L0"}}}`), known, form.Options{})
	if _, err := f.Read(url.Values{}); !errors.Is(err, form.ErrFormTooLarge) {
		t.Errorf("got %v", err)
	}
}

// FuzzRead reads arbitrary input. The result is an object or an error.
func FuzzRead(f *testing.F) {
	for _, name := range []string{".spec.a", ".spec.list[0]", ".spec.map[0]~key", `.spec["x.y"]`, ".spec.list", ".spec~set", ".", "..", "[", `[""]`, "~row", ".spec.any"} {
		f.Add(name, "text", ".spec.map[0]", "1")
	}
	const text = `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}, b: {type: boolean, default: true},
  list: {type: array, items: {type: object, properties: {c: {type: string}, inner: {type: object, properties: {d: {type: string}}}}}},
  map: {type: object, additionalProperties: {type: string}}, any: {x-kubernetes-preserve-unknown-fields: true}, x.y: {type: number, nullable: true}}}}}`
	f.Fuzz(func(t *testing.T, name, entered, other, second string) {
		made := form.New(schemaOf(t, text), nil, form.Options{})
		root, err := made.Read(url.Values{name: {entered}, other: {second}})
		if err != nil {
			return
		}
		object, problems := made.Object(root)
		root.AddProblems(append(problems, form.Problem{Field: name, Message: entered}))
		if form.FormatYAML(object) == "" {
			t.Error("there is neither an object nor an error")
		}
	})
}

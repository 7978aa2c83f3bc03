package crds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// crdWithSpec returns a CRD with a schema for spec, as YAML in one line.
func crdWithSpec(t *testing.T, spec string, edits ...string) *object.Object {
	t.Helper()
	text := strings.NewReplacer(edits...).Replace(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Shop, plural: shops}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: %s}}}
status: {storedVersions: [v1]}
`, spec))
	data := must.Get(yaml.YAMLToJSONStrict([]byte(text))).In(t)
	return must.Get(object.Parse(data)).In(t)
}

func TestBreakingChanges(t *testing.T) {
	const plain = "{type: object, properties: {a: {type: string}, b: {type: integer}}}"
	for name, c := range map[string]struct {
		before, after string
		edits         []string
		want          string
	}{
		"nothing":               {before: plain, after: plain},
		"an optional field":     {before: plain, after: "{type: object, properties: {a: {type: string}, b: {type: integer}, c: {type: object, required: [x], properties: {x: {}}}}}"},
		"a field is removed":    {before: plain, after: "{type: object, properties: {a: {type: string}}}", want: "v1: spec.b: is removed"},
		"and unknown ones kept": {before: plain, after: "{type: object, x-kubernetes-preserve-unknown-fields: true}"},
		"unknown ones are not kept": {before: "{type: object, x-kubernetes-preserve-unknown-fields: true}", after: plain,
			want: "v1: spec: unknown fields are no longer preserved"},
		"a type": {before: plain, after: "{type: object, properties: {a: {type: integer}, b: {x-kubernetes-int-or-string: true}}}",
			want: "v1: spec.a: the type string becomes integer; v1: spec.b: the type integer becomes integer or string"},
		"the whole": {before: plain, after: "{type: string}", want: "v1: spec: the type object becomes string"},
		"required":  {before: plain, after: strings.Replace(plain, "{type: object", "{type: object, required: [a]", 1), want: "v1: spec.a: becomes required and has no default"},
		"required and new": {before: "{type: object}", after: strings.Replace(plain, "{type: object", "{type: object, required: [b, a]", 1),
			want: "v1: spec.a: becomes required and has no default; v1: spec.b: becomes required and has no default"},
		"required with a default": {before: "{type: object}", after: "{type: object, required: [a], properties: {a: {type: string, default: x}}}"},
		"required no more":        {before: "{type: object, required: [a]}", after: "{type: object}"},
		"an enum loses": {before: "{type: string, enum: [a, b, c]}", after: "{type: string, enum: [b, d]}",
			want: `v1: spec: may no longer be "a"; v1: spec: may no longer be "c"`},
		"an enum gains":   {before: "{type: string, enum: [a]}", after: "{type: string, enum: [b, a]}"},
		"an enum appears": {before: "{type: integer}", after: "{type: integer, enum: [1, 2]}", want: "v1: spec: is limited to 1, 2"},
		"an enum goes":    {before: "{type: integer, enum: [1]}", after: "{type: integer}"},
		"in a list": {before: "{type: array, items: {type: object, properties: {a: {type: string}}}}", after: "{type: array, items: {type: object}}",
			want: "v1: spec[].a: is removed"},
		"in a map": {before: "{type: object, additionalProperties: {type: string}}", after: "{type: object, additionalProperties: {type: integer}}",
			want: "v1: spec.*: the type string becomes integer"},
		"a map goes":        {before: "{type: object, additionalProperties: {type: string}}", after: "{type: object}", want: "v1: spec.*: is removed"},
		"a field of a map":  {before: plain, after: "{type: object, additionalProperties: {type: string}}", want: "v1: spec.b: the type integer becomes string"},
		"any of a map":      {before: "{type: object, additionalProperties: true}", after: "{type: object, additionalProperties: {}}"},
		"none of a map":     {before: "{type: object, additionalProperties: true}", after: "{type: object, additionalProperties: false}", want: "v1: spec.*: is removed"},
		"the scope":         {before: plain, after: plain, edits: []string{"Namespaced", "Cluster"}, want: "spec.scope: Namespaced becomes Cluster"},
		"the kind":          {before: plain, after: plain, edits: []string{"kind: Shop", "kind: Store"}, want: "spec.names.kind: Shop becomes Store"},
		"the plural":        {before: plain, after: plain, edits: []string{"plural: shops", "plural: stores"}, want: "spec.names.plural: shops becomes stores"},
		"a stored version":  {before: plain, after: "{type: string}", edits: []string{"- name: v1", "- name: v2"}, want: "spec.versions: v1 is removed, but objects may be stored in it (status.storedVersions)"},
		"no schema in both": {before: plain, after: plain, edits: []string{"schema:", "unknown:"}, want: "v1: the object: the type object becomes any"},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(BreakingChanges(crdWithSpec(t, c.before), crdWithSpec(t, c.after, c.edits...))).In(t)
			if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A version without stored objects may be removed, whatever its schema.
func TestVersionThatIsNotStoredMayBeRemoved(t *testing.T) {
	before := crdWithSpec(t, "{type: string}", "storedVersions: [v1]", "storedVersions: [v2]")
	got, err := BreakingChanges(before, crdWithSpec(t, "{type: integer}", "- name: v1", "- name: v2"))
	if err != nil || len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestParse(t *testing.T) {
	const one = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s, creationTimestamp: null}\nstatus: {}\n"
	several := "# Ours\n---\n" + fmt.Sprintf(one, "b.x") + "---\n" + fmt.Sprintf(one, "a.x") + "---\n# the end\n"
	all := must.Get(Parse([][]byte{[]byte(several), []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"c.x"}}`)}, false)).In(t)
	if got := fmt.Sprint(Names(all)); got != "[a.x b.x c.x]" {
		t.Error(got)
	}
	if got := string(all[0].JSON()); got != `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"b.x"}}` {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"kind: [":                      "text 1, document 1: ",
		"apiVersion: v1\nkind: Secret": "Secret of v1 is not a CustomResourceDefinition of apiextensions.k8s.io/v1",
		fmt.Sprintf(one, "a") + "---\n" + fmt.Sprintf(one, `""`): "text 1, document 2: metadata.name is missing",
	} {
		if _, err := Parse([][]byte{[]byte(text)}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

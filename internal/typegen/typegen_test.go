package typegen_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
	"github.com/setpoint-dev/setpoint/internal/typegen"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

// read returns the objects of a file.
func read(t *testing.T, file string) (all []*object.Object) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", file))).In(t)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		json := must.Get(yaml.YAMLToJSON([]byte(document))).In(t)
		o := must.Get(object.Parse(json)).In(t)
		all = append(all, o)
	}
	return all
}

// options are those of the files in testdata. Besides, there is the built-in ConfigMap, and a kind
// without a schema.
func options(t *testing.T) typegen.Options {
	t.Helper()
	known := map[typegen.Resource]typegen.Kind{}
	o := typegen.Options{Controllers: read(t, "controllers.yaml"), Sources: func(r typegen.Resource) (typegen.Kind, error) {
		kind, has := known[r]
		if !has {
			return kind, fmt.Errorf("no %s", r)
		}
		return kind, nil
	}}
	for _, crd := range read(t, "kinds.yaml") {
		served := must.Get(schema.OfCRD(crd.JSON())).In(t)
		for _, each := range served {
			r := typegen.Resource{APIVersion: each.APIVersion(), Plural: each.Plural}
			known[r] = typegen.Kind{Kind: each.Kind, Schema: each.Schema, Custom: true}
			o.Kinds = append(o.Kinds, r)
		}
	}
	definitions := schema.Definitions{}
	root := definitions.AddGoType(reflect.TypeFor[corev1.ConfigMap]())
	known[typegen.Resource{APIVersion: "v1", Plural: "configmaps"}] = typegen.Kind{Kind: object.NewKind("v1", "ConfigMap"), Schema: &root, Definitions: definitions}
	untyped := typegen.Resource{APIVersion: "example.org/v1", Plural: "strangers"}
	known[untyped] = typegen.Kind{Kind: object.NewKind("example.org/v1", "Stranger"), Custom: true}
	o.Related = []typegen.Resource{untyped}
	return o
}

func generate(t *testing.T) map[string][]byte {
	t.Helper()
	m := must.Get(typegen.Generate(options(t))).In(t)
	if diff := cmp.Diff([]string{"Stranger.example.org/v1"}, m.Untyped); diff != "" {
		t.Errorf("untyped kinds (-want +got):\n%s", diff)
	}
	json := must.Get(m.JSONSchema()).In(t)
	return map[string][]byte{"setpoint_types.d.ts": m.TypeScript(), "setpoint_types.py": m.Python(), "setpoint_types.schema.json": json}
}

func TestGenerate(t *testing.T) {
	for name, got := range generate(t) {
		compareFile(t, filepath.Join("testdata", name), got)
	}
}

// The package in js/ has the types of webhooks of any controller.
func TestTypesOfJavaScriptPackage(t *testing.T) {
	m := must.Get(typegen.Webhooks()).In(t)
	json := must.Get(m.JSONSchema()).In(t)
	compareFile(t, filepath.Join("..", "..", "js", "wire.d.ts"), m.TypeScript())
	compareFile(t, filepath.Join("..", "..", "js", "wire.schema.json"), json)
}

func compareFile(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		must.Succeed(t, os.WriteFile(file, got, 0o644))
	}
	want := must.Get(os.ReadFile(file)).In(t)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), -update writes it:\n%s", file, diff)
	}
}

func TestOutputIsDeterministic(t *testing.T) {
	first := generate(t)
	for range 5 {
		if diff := cmp.Diff(first, generate(t)); diff != "" {
			t.Fatalf("two runs differ:\n%s", diff)
		}
	}
}

func TestUnknownKind(t *testing.T) {
	o := options(t)
	o.Related = []typegen.Resource{{APIVersion: "apps/v1", Plural: "daemonsets"}}
	if _, err := typegen.Generate(o); err == nil || err.Error() != "apps/v1/daemonsets: no apps/v1/daemonsets" {
		t.Errorf("error: %v", err)
	}
}

// mypyPython is given by make python-types.
var mypyPython = flag.String("mypy", "", "a Python with mypy, which checks the types for Python")

// The module runs. With -mypy, mypy accepts what is right and finds what is wrong.
func TestPython(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "setpoint_types.py"), generate(t)["setpoint_types.py"], 0o600))
	for _, name := range []string{"right.py", "wrong.py"} {
		text := must.Get(os.ReadFile(filepath.Join("testdata", name))).In(t)
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	run := func(command ...string) (string, error) {
		c := exec.CommandContext(t.Context(), command[0], command[1:]...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := run("python3", "right.py"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if *mypyPython == "" {
		return
	}
	mypy := []string{*mypyPython, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.DevNull}
	if out, err := run(append(mypy, "setpoint_types.py", "right.py")...); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	out, err := run(append(mypy, "wrong.py")...)
	if err == nil {
		t.Error("mypy finds nothing in wrong.py")
	}
	for _, want := range []string{
		`expression has type "int", variable has type "str"`,
		`TypedDict "CatSpec" has no key "tempre"`,
		`TypedDict "CatHomesChildren" has no key "Pod.v1"`,
		`Extra key "childern" for TypedDict "CatHomesSyncResponse"`,
		`Non-overlapping equality check`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("mypy does not say %s:\n%s", want, out)
		}
	}
}

// Comments end where they should.
func TestCommentsAreEscaped(t *testing.T) {
	files := generate(t)
	if bytes.Contains(files["setpoint_types.d.ts"], []byte("comment */")) || bytes.Contains(files["setpoint_types.py"], []byte(`no """`)) {
		t.Error("a description ends its comment")
	}
}

// Schemas that refer to themselves, enumerations of objects, and names that are no identifiers.
func TestOddSchemas(t *testing.T) {
	ref := func(name string) *spec.Schema { return spec.RefSchema("#/components/schemas/" + name) }
	list := spec.ArrayProperty(ref("List"))
	odd := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
		"list": *ref("List"), "a": *ref("A"), "missing": *ref("Missing"), "tree": *ref("Tree"),
		"enum": {SchemaProps: spec.SchemaProps{Enum: []any{map[string]any{"a": 1.0}, []any{"b"}}}},
	}}}
	tree := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{"children": *spec.ArrayProperty(ref("Tree"))}}}
	kind := typegen.Kind{
		Kind: object.NewKind("example.com/v1", "Odd-Kind"), Schema: odd,
		Definitions: schema.Definitions{"List": list, "A": ref("B"), "B": ref("A"), "Tree": tree},
	}
	m := must.Get(typegen.Generate(typegen.Options{
		Kinds: []typegen.Resource{{APIVersion: "example.com/v1", Plural: "odd"}}, Sources: func(typegen.Resource) (typegen.Kind, error) { return kind, nil },
	})).In(t)
	text := string(m.TypeScript())
	for _, want := range []string{
		"export interface OddKind {\n", `kind: "Odd-Kind";`, "list?: any[];", "a?: any;", "missing?: any;", "tree?: Tree;", "children?: Tree[];", "enum?: any;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

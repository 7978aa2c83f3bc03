package edit

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// newTestDraft returns a draft of a kind with a few fields, of a stored object if given.
func newTestDraft(t *testing.T, stored string) *draft {
	t.Helper()
	schema := &spec.Schema{}
	const text = `{type: object, properties: {spec: {type: object, properties: {
		size: {type: integer}, name: {type: string}, tags: {type: array, items: {type: string}}}}}}`
	must.Succeed(t, yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", "")), schema))
	d := &draft{Kind: object.Kind{Group: "example.org", Version: "v1", Kind: "Shop", Plural: "shops"}, Mode: modeForm, values: url.Values{}}
	options := form.Options{APIVersion: "example.org/v1", Kind: "Shop"}
	d.form, d.digester = form.New(schema, nil, options), newSecretDigester()
	if stored != "" {
		data := must.Get(yaml.YAMLToJSON([]byte(stored))).In(t)
		must.Succeed(t, d.setStored(data))
		d.Text = d.Base()
	}
	return d
}

const storedShop = `{apiVersion: example.org/v1, kind: Shop, metadata: {name: a, resourceVersion: "7", uid: u, finalizers: [x/y]},
  spec: {size: 1, name: old, tags: [a], unknown: {deep: true}}, status: {phase: Ready}}`

func TestDraftKeepsHiddenFields(t *testing.T) {
	d := newTestDraft(t, storedShop)
	d.Mode, d.Text = modeYAML, strings.NewReplacer("size: 1", "size: 2", "  tags:\n  - a\n", "").Replace(d.Text)
	entered, valid := d.parse()
	if !valid {
		t.Fatal(d.Problem, d.Problems)
	}
	if got := compactJSON(object.PatchBetween(d.base, entered)); got != `{"spec":{"size":2,"tags":null}}` {
		t.Errorf("the patch is %s", got)
	}
	if d.version != "7" {
		t.Errorf("the version is %q", d.version)
	}
}

func TestTurningToYAMLNeedsValidInput(t *testing.T) {
	d := newTestDraft(t, "")
	d.values = url.Values{".metadata.name": {"a"}, ".spec.size": {"two"}}
	d.turnToYAML()
	d.buildForm()
	if d.Mode != modeForm || d.Problem == "" || !d.Root.HasProblems() {
		t.Errorf("as %s, problem %q", d.Mode, d.Problem)
	}
	d.Root.Walk(func(f *form.Field) {
		if f.Path == "spec.size" && (f.Text != "two" || f.Input.Type != "text") {
			t.Errorf("the form shows %q in an input of type %s", f.Text, f.Input.Type)
		}
	})
	d.values.Set(".spec.size", "2")
	d.turnToYAML()
	if d.Mode != modeYAML || !strings.Contains(d.Text, "size: 2") {
		t.Errorf("as %s it is\n%s", d.Mode, d.Text)
	}
}

func TestYAMLErrors(t *testing.T) {
	for text, says := range map[string]string{
		"a: [":                       "line 1",
		"- a":                        "not an object",
		"kind: Other":                "kind is Other, but must be Shop on this page.",
		"apiVersion: v2":             "apiVersion is v2",
		"spec: {a: 1}\nspec: {b: 1}": "already set",
	} {
		d := newTestDraft(t, "")
		d.Mode, d.Text = modeYAML, text
		if _, valid := d.parse(); valid || !strings.Contains(d.Problem, says) {
			t.Errorf("%q: %t, %q", text, valid, d.Problem)
		}
	}
}

func TestSecretValuesAreNotSent(t *testing.T) {
	stored := `{apiVersion: v1, kind: Secret, metadata: {name: a, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{data: c2VjcmV0}"}}, data: {a: c2VjcmV0}}`
	d := newTestDraft(t, stored)
	d.Kind = object.Kind{Version: "v1", Kind: "Secret"}
	if shown := d.Text + compactJSON(d.base) + d.values.Encode(); strings.Contains(shown, "c2VjcmV0") {
		t.Errorf("the page has %s", shown)
	}
	d.Mode = modeYAML
	for text, want := range map[string]string{
		d.Text: "{}",
		strings.Replace(d.Text, "a: (unchanged)", "a: bmV3", 1): `{"data":{"a":"bmV3"}}`,
	} {
		d.Text = text
		entered, valid := d.parse()
		if !valid {
			t.Fatal(d.Problem)
		}
		if got := compactJSON(object.PatchBetween(d.base, entered)); got != want {
			t.Errorf("the patch is %s, want %s", got, want)
		}
	}
	d.Text = "metadata: {name: a}\ndata: {b: (unchanged)}"
	if _, valid := d.parse(); valid || len(d.Problems) != 1 || d.Problems[0].Field != "data[b]" {
		t.Errorf("a value that is not there is kept: %t, %v", valid, d.Problems)
	}
}

func compactJSON(object map[string]any) string {
	data, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestDeleteIndentsByDepth(t *testing.T) {
	var data deletePage
	node := func(name string, children ...*ownertree.Node) *ownertree.Node {
		return &ownertree.Node{Child: inspect.Child{Ref: object.Ref{Name: name}}, Children: children}
	}
	data.addDependents(node("root", node("a", node("b", node("c")))), 0)
	for i, want := range []string{"", "↳ ", "\u2003↳ "} {
		if got := data.Dependents[i].Indent(); got != want {
			t.Errorf("depth %d: %q", i, got)
		}
	}
}

package dashboard

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// newTestDraft returns a draft of a kind with a few fields, of a stored object if given.
func newTestDraft(t *testing.T, stored string) *draft {
	t.Helper()
	schema := &spec.Schema{}
	const text = `{type: object, properties: {spec: {type: object, properties: {
		size: {type: integer}, name: {type: string}, tags: {type: array, items: {type: string}}}}}}`
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", "")), schema); err != nil {
		t.Fatal(err)
	}
	d := &draft{Kind: object.Kind{Group: "example.org", Version: "v1", Kind: "Shop", Plural: "shops"}, Mode: modeForm, values: url.Values{}}
	options := form.Options{APIVersion: "example.org/v1", Kind: "Shop", Existing: stored != ""}
	d.form, d.digester = form.New(schema, nil, options), newSecretDigester()
	if stored != "" {
		data, err := yaml.YAMLToJSON([]byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.loadStored(data); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

const storedShop = `{apiVersion: example.org/v1, kind: Shop, metadata: {name: a, resourceVersion: "7", uid: u, finalizers: [x/y]},
  spec: {size: 1, name: old, tags: [a], unknown: {deep: true}}, status: {phase: Ready}}`

func TestDraftKeepsHiddenFields(t *testing.T) {
	d := newTestDraft(t, storedShop)
	d.values.Set(".spec.size", "2")
	form.Remove(d.values, ".spec.tags[0]")
	object, valid := d.parse()
	if !valid {
		t.Fatal(d.Problem, d.Problems)
	}
	if got := compactJSON(form.Patch(d.base, object)); got != `{"spec":{"size":2,"tags":null}}` {
		t.Errorf("the patch is %s", got)
	}
	if d.Version != "7" {
		t.Errorf("the version is %q", d.Version)
	}
}

func TestSwitchingModeKeepsInput(t *testing.T) {
	d := newTestDraft(t, storedShop)
	d.values.Set(".spec.size", "2")
	d.switchMode(modeYAML)
	if d.Mode != modeYAML || !strings.Contains(d.Text, "size: 2") || !strings.Contains(d.Text, "x/y") {
		t.Fatalf("as YAML it is\n%s", d.Text)
	}
	d.Text = strings.ReplaceAll(d.Text, "x/y", "z/y")
	d.switchMode(modeForm)
	d.values.Set(".spec.name", "new")
	object, valid := d.parse()
	if !valid {
		t.Fatal(d.Problem, d.Problems)
	}
	want := `{"metadata":{"finalizers":["z/y"]},"spec":{"name":"new","size":2}}`
	if got := compactJSON(form.Patch(d.base, object)); got != want {
		t.Errorf("the patch is %s, want %s", got, want)
	}
	if d.FormBase() == "" {
		t.Error("what the form is laid over does not travel with the page")
	}
}

// A form that arrives without a schema can be sent again, and is not read as YAML.
func TestFormWithoutSchema(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api", "/openapi/v3":
			_, _ = w.Write([]byte(`{"items":[],"paths":{}}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"example.org"},"versions":[{"version":"v1",
				"resources":[{"resource":"shops","responseKind":{"kind":"Shop"},"scope":"Cluster","verbs":["list"]}]}]}]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	known, err := userclient.New(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Cluster: known, Access: access.Options{Token: testToken}, Now: time.Now,
		Sources: func(context.Context) []model.Source { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(get(t, signedIn(s), "/resources/shops.example.org/new").Body.String())
	if token == nil {
		t.Fatal("the page has no token")
	}
	sent := url.Values{"csrf": {token[1]}, "as": {modeForm}, "do": {"save"}, ".spec.name": {`"old" & new`}}
	for _, path := range []string{"/resources/shops.example.org/new", "/resources/shops.example.org/-/a/edit"} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(sent.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		page := html.UnescapeString(w.Body.String())
		for _, want := range []string{`name="as" value="form"`, `name="do" value="save"`, `name=".spec.name" value=""old" & new"`, "Send again"} {
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(page, want) {
				t.Errorf("%s answers %d without %s:\n%s", path, w.Code, want, page)
			}
		}
		again := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(page)
		if again == nil || strings.Contains(page, "load the page again") {
			t.Fatalf("%s answers:\n%s", path, page)
		}
		sent.Set("csrf", again[1]) // The token of this page is valid too.
	}
}

// A form that is sent while its page loads lacks fields. They do not count as removed.
func TestPartialFormIsRejected(t *testing.T) {
	k, s := newObjectServer(t, v1Object("ConfigMap", map[string]any{"a": "b"}))
	fields := formFields(get(t, s, "/resources/configmaps/shop/a/edit").Body.String())
	fields.Del("whole")
	for name := range fields {
		if strings.HasPrefix(name, ".data") {
			fields.Del(name)
		}
	}
	if w := post(t, s, "/resources/configmaps/shop/a/edit", fields); w.Code != http.StatusBadRequest || len(k.patches) > 0 {
		t.Errorf("status %d, patches %v:\n%s", w.Code, k.patches, w.Body)
	}
}

func TestSwitchingModeNeedsValidInput(t *testing.T) {
	d := newTestDraft(t, "")
	d.values = url.Values{".metadata.name": {"a"}, ".spec.size": {"two"}}
	d.switchMode(modeYAML)
	d.buildForm()
	if d.Mode != modeForm || d.Problem == "" || !d.Root.HasProblems() {
		t.Errorf("as %s, problem %q", d.Mode, d.Problem)
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
		object, valid := d.parse()
		if !valid {
			t.Fatal(d.Problem)
		}
		if got := compactJSON(form.Patch(d.base, object)); got != want {
			t.Errorf("the patch is %s, want %s", got, want)
		}
	}
	d.Text = "metadata: {name: a}\ndata: {b: (unchanged)}"
	if _, valid := d.parse(); valid || len(d.Problems) != 1 || d.Problems[0].Field != "data[b]" {
		t.Errorf("a value that is not there is kept: %t, %v", valid, d.Problems)
	}
}

// Fault U9: text in a number field was lost when switching from YAML to the form. It is kept,
// and the API server reports it.
func TestSwitchingModeKeepsInvalidNumbers(t *testing.T) {
	d := newTestDraft(t, storedShop)
	d.Mode, d.Text = modeYAML, strings.Replace(d.Text, "size: 1", "size: three", 1)
	d.switchMode(modeForm)
	d.buildForm()
	found := false
	d.Root.Walk(func(f *form.Field) {
		if f.Path == "spec.size" {
			found = f.Text == "three" && f.Input.Type == "text"
		}
	})
	if d.Mode != modeForm || !found {
		t.Fatalf("as %s, the form does not show what was entered", d.Mode)
	}
	object, valid := d.parse()
	if !valid || compactJSON(form.Patch(d.base, object)) != `{"spec":{"size":"three"}}` {
		t.Errorf("what is sent to be refused is %s, %t", compactJSON(object), valid)
	}
}

func compactJSON(object map[string]any) string {
	data, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

package form_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/must"
)

var update = flag.Bool("update", false, "update the expected files of the vectors in testdata")

// TestVectors reads schema.yaml, optional definitions.yaml, and "entered": a name and a text per
// line, "\n" for a line break. It compares "fields", object.yaml, "problems", and where the
// messages in "server" are shown: "explained".
func TestVectors(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := must.Get(txtar.ParseFile(path)).In(t)
			v := vector{T: t, files: map[string]string{}, wanted: map[string]string{}}
			for _, file := range archive.Files {
				v.files[file.Name] = string(file.Data)
			}
			v.run()
			if *update {
				v.write(path, archive)
				return
			}
			for name, got := range v.wanted {
				if want := v.files[name]; got != want {
					t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
				}
			}
		})
	}
}

type vector struct {
	*testing.T
	files, wanted map[string]string
}

func (v *vector) run() {
	f := form.New(schemaOf(v.T, v.files["schema.yaml"]), definitionsOf(v.T, v.files["definitions.yaml"]), form.Options{
		APIVersion: "example.org/v1", Kind: "Shop", Namespaced: true,
	})
	values := entries(v.files["entered"])
	root, err := f.Read(values)
	if err != nil {
		v.wanted["problems"] = "refused: " + err.Error() + "\n"
		return
	}
	object, problems := f.Object(root)
	v.wanted["object.yaml"] = form.FormatYAML(object)
	for _, p := range problems {
		v.wanted["problems"] += p.Field + ": " + p.Message + "\n"
	}
	v.wanted["fields"] = formatScalar(root)
	if server, is := v.files["server"]; is {
		v.addProblems(root, server)
	}
}

func (v *vector) addProblems(root *form.Field, server string) {
	var problems []form.Problem
	for line := range strings.Lines(server) {
		field, message, _ := strings.Cut(strings.TrimSpace(line), ": ")
		problems = append(problems, form.Problem{Field: field, Message: message})
	}
	for _, p := range root.AddProblems(problems) {
		v.wanted["explained"] += "nowhere: " + p.Field + ": " + p.Message + "\n"
	}
	root.Walk(func(f *form.Field) {
		for _, p := range f.Problems {
			v.wanted["explained"] += f.ID + ": " + p + "\n"
		}
	})
}

func (v *vector) write(path string, archive *txtar.Archive) {
	for i := range archive.Files {
		if text, made := v.wanted[archive.Files[i].Name]; made {
			archive.Files[i].Data = []byte(text)
			delete(v.wanted, archive.Files[i].Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.wanted)) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(v.wanted[name])})
	}
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		v.Fatal(err)
	}
}

func schemaOf(t *testing.T, text string) *spec.Schema {
	t.Helper()
	schema := &spec.Schema{}
	must.Succeed(t, yaml.Unmarshal([]byte(text), schema))
	return schema
}

func definitionsOf(t *testing.T, text string) map[string]*spec.Schema {
	t.Helper()
	known := map[string]*spec.Schema{}
	must.Succeed(t, yaml.Unmarshal([]byte(text), &known))
	return known
}

func entries(text string) url.Values {
	values := url.Values{}
	for line := range strings.Lines(text) {
		name, entered, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		values.Add(name, strings.ReplaceAll(entered, `\n`, "\r\n"))
	}
	return values
}

func lines(values url.Values) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, text := range values[name] {
			fmt.Fprintf(&out, "%s = %s\n", name, strings.ReplaceAll(text, "\n", `\n`))
		}
	}
	return out.String()
}

// formatScalar prints the fields of a form, one per line.
func formatScalar(root *form.Field) string {
	var out strings.Builder
	for _, part := range root.Fields {
		if part.Label != "metadata" {
			outline(&out, part, 0, false)
		}
	}
	return out.String()
}

func outline(out *strings.Builder, f *form.Field, depth int, later bool) {
	fmt.Fprintf(out, "%s%s %s", strings.Repeat("  ", depth), f.ID, f.Type)
	say := func(name string, is bool) {
		if is {
			out.WriteString(" " + name)
		}
	}
	report := func(name, text string) { say(name+"="+text, text != "") }
	say("later", later)
	say("yaml", f.YAML)
	say("required", f.Required && !f.Mandatory)
	say("mandatory", f.Mandatory)
	say("settable", f.CanBeEmpty)
	say("set", f.SendEmpty)
	in := f.Input
	report("widget", in.Widget)
	say("type="+in.Type, in.Type != "" && in.Type != "text")
	report("min", in.Min)
	report("max", in.Max)
	report("default", f.Default)
	report("next", f.Next)
	for _, option := range in.Options {
		out.WriteString(" (" + option.Text + ")")
	}
	report("text", strings.ReplaceAll(strings.ReplaceAll(f.Text, "\r", ""), "\n", `\n`))
	report("help", f.Help)
	out.WriteByte('\n')
	for _, parts := range [][]*form.Field{f.Fields, f.Rows} {
		for _, part := range parts {
			outline(out, part, depth+1, false)
		}
	}
	for _, part := range f.More {
		outline(out, part, depth+1, true)
	}
}

func TestInputLimits(t *testing.T) {
	f := form.New(schemaOf(t, "type: object\nproperties: {list: {type: array, items: {type: array, items: {type: string}}}}"), nil, form.Options{})
	many := url.Values{}
	for i := range form.MaxEntries + 1 {
		many.Set(fmt.Sprintf(".list[%d]", i), "x")
	}
	rows := url.Values{}
	for i := range form.MaxRows + 1 {
		rows.Set(fmt.Sprintf(".list[%d]", i), "x")
	}
	fields := url.Values{}
	for i := range 100 {
		for j := range 201 {
			fields.Set(fmt.Sprintf(".list[%d][%d]~row", i, j), "1")
		}
	}
	for name, values := range map[string]url.Values{
		"entries": many, "rows": rows, "fields": fields,
		"bytes": {".list": {strings.Repeat("x", form.MaxBytes)}},
	} {
		if _, err := f.Read(values); !errors.Is(err, form.ErrFormTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidNames(t *testing.T) {
	f := form.New(schemaOf(t, "type: object\nproperties: {list: {type: array, items: {type: string}}}"), nil, form.Options{})
	for name, says := range map[string]string{
		".list[999999999]":            "row",
		".list[-1]":                   "unknown field",
		".list[0":                     "unknown field",
		".list[99999999999999999999]": "row",
		".nothing":                    `unknown field ".nothing"`,
		".list.size":                  `unknown field ".list.size"`,
		".list[0]~shout":              "unknown field",
		".status.phase":               `unknown field ".status.phase"`,
		"..":                          "unknown field",
		`.["x`:                        "unknown field",
	} {
		_, err := f.Read(url.Values{name: {"x"}})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	if _, err := f.Read(url.Values{".list[0]": {"a", "b"}}); err == nil {
		t.Error("an entry that is there twice is read")
	}
	must.Get(f.Read(url.Values{"other": {"a", "b"}, "mode": {"form"}})).In(t) // What is not the form's.
}

func TestRows(t *testing.T) {
	values := url.Values{".a[0]": {"x"}, ".a[0]~row": {"1"}, ".a[01]": {"y"}, ".a[0].b": {"z"}, ".a[1]": {"kept"}}
	form.Remove(values, ".a[0]")
	form.Add(values, ".a[2]")
	form.Add(values, "spec")
	form.Remove(values, "")
	if got := lines(values); got != ".a[01] = y\n.a[1] = kept\n.a[2]~row = 1\n" {
		t.Errorf("got\n%s", got)
	}
}

func TestParseYAMLErrorPosition(t *testing.T) {
	for text, says := range map[string]string{
		"a: 1\na: 2":             `YAML: line 2: key "a" already set in map`,
		"a: 1\nb:\n  - x\n y: 2": "line 3",
		"a: 1\n---\nb: 2":        "YAML: line 2: second document: only one object is allowed",
		"a:\n\tb: 1":             "line 2",
	} {
		if _, err := form.ParseYAML(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\na: 1\n"} {
		if _, err := form.ParseYAML(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNumbersStayExact(t *testing.T) {
	f := form.New(schemaOf(t, "type: object\nproperties: {size: {type: integer}, price: {type: number}}"), nil, form.Options{})
	root := must.Get(f.Read(url.Values{".size": {"9223372036854775807"}, ".price": {"19.90"}})).In(t)
	made, _ := f.Object(root)
	if data, _ := json.Marshal(made); string(data) != `{"metadata":{},"price":19.90,"size":9223372036854775807}` {
		t.Errorf("got %s", data)
	}
}

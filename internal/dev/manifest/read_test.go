package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// chdirWithFiles writes the files of a txtar text to a folder and makes that the
// current one, so that paths in messages are short.
func chdirWithFiles(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, txtar.Write(txtar.Parse([]byte(text)), dir))
	t.Chdir(dir)
}

const folder = `
-- crd.yaml --
# The kind.
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
--- # after it, an empty document

---
apiVersion: v1
kind: ConfigMap
metadata: {name: text, namespace: web}
data:
  yaml: |
    a: b
     ---
    ---x
-- more/b.yml --
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: one}}
- {apiVersion: v1, kind: Pod, metadata: {name: two}}
-- more/a.json --
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
-- more/README.md --
no manifest
-- more/setpoint.yaml --
apply: []
-- more/kustomization.yaml --
resources: []
-- more/deeper/c.yaml --
not: read
`

func TestRead(t *testing.T) {
	chdirWithFiles(t, folder)
	dir := must.Get(os.Getwd()).In(t)
	documents := must.Get(manifest.Read([]string{filepath.Join(dir, "crd.yaml"), "more"})).In(t)
	got := lists.Map(documents, func(d manifest.Document) string { return d.String() + ": " + manifest.RefOf(d.Object).String() })
	want := []string{
		"crd.yaml: document 1 (line 3): CustomResourceDefinition things.example.com",
		"crd.yaml: document 2 (line 9): ConfigMap web/text",
		"more/a.json: document 1 (line 1): Namespace web",
		"more/b.yml: document 1 (line 1): Pod one",
		"more/b.yml: document 1 (line 1): Pod two",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadReservedFile(t *testing.T) {
	chdirWithFiles(t, "-- setpoint.yaml --\nmanifests: [a.yaml]\n")
	want := "setpoint.yaml: document 1 (line 1): apiVersion: required: the file is not a manifest; name its folder, or its manifests"
	if _, err := manifest.Read([]string{"setpoint.yaml"}); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestReadErrors(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"not YAML":   {"a: b\n---\nc: d\na: [", "a.yaml: document 2 (line 3): error converting YAML to JSON: yaml: line 4:"},
		"twice":      {"a: b\na: c", `a.yaml: document 1 (line 1): error converting YAML to JSON: yaml: unmarshal errors:`},
		"a list":     {"[1]", "a.yaml: document 1 (line 1): error unmarshaling JSON"},
		"no kind":    {"apiVersion: v1\nmetadata: {name: a}", "a.yaml: document 1 (line 1): kind: required"},
		"no version": {"kind: Pod\nmetadata: {name: a}", "a.yaml: document 1 (line 1): apiVersion: required"},
		"no name":    {"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}", "a.yaml: document 1 (line 1): metadata.name: required"},
		"bad item":   {"apiVersion: v1\nkind: List\nitems: [null]", "a.yaml: document 1 (line 1): apiVersion: required"},
		"same object": {
			"{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}}",
			"a.yaml: document 2 (line 3): Pod a is already in a.yaml: document 1 (line 1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			chdirWithFiles(t, "-- a.yaml --\n"+c.file+"\n")
			if _, err := manifest.Read([]string{"a.yaml"}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestReadNamesAllMissingFiles(t *testing.T) {
	chdirWithFiles(t, "-- there.yaml --\n{}\n")
	_, err := manifest.Read([]string{"gone.yaml", "there.yaml", "away"})
	if err == nil || !strings.Contains(err.Error(), "gone.yaml") || !strings.Contains(err.Error(), "away") {
		t.Error(err)
	}
}

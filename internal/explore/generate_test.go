package explore_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/explore/document"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

const gadget = `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a","namespace":"n"},
	"spec":{"count":1,"limit":3,"on":true,"mode":"Fast","id":"x1","text":"hello","list":[1],"nested":{"deep":5},"free":2},"status":{"count":9}}`

const gadgetCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},"spec":{
	"group":"example.com","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","required":["count"],"properties":{
			"count":{"type":"integer","minimum":1},"limit":{"type":"integer","maximum":3},"on":{"type":"boolean"},
			"mode":{"type":"string","enum":["Slow","Fast"]},"id":{"type":"string","pattern":"^x"},"text":{"type":"string","maxLength":5},
			"list":{"type":"array"},"nested":{"type":"object","properties":{"deep":{"type":"integer","multipleOf":5}}}}}}}}}]}}`

func TestGenerate(t *testing.T) {
	served := must.Get(schema.OfCRD([]byte(gadgetCRD))).In(t)
	edits := document.Generate(apiservertest.Parse(t, gadget), served[0].Schema, 100)
	var got []string
	for _, e := range edits {
		patch, _ := json.Marshal(e.Patch)
		got = append(got, e.Name+" "+string(patch))
	}
	want := []string{
		`spec.count from 1 to 2 {"spec":{"count":2}}`,
		`spec.free from 2 to 3 {"spec":{"free":3}}`,
		`remove spec.id {"spec":{"id":null}}`,
		`spec.limit from 3 to 2 {"spec":{"limit":2}}`,
		`spec.mode from "Fast" to "Slow" {"spec":{"mode":"Slow"}}`,
		`spec.nested.deep from 5 to 10 {"spec":{"nested":{"deep":10}}}`,
		`spec.on from true to false {"spec":{"on":false}}`,
		`remove spec.text {"spec":{"text":null}}`,
		`spec.free from 2 to 1 {"spec":{"free":1}}`,
		`remove spec.limit {"spec":{"limit":null}}`,
		`remove spec.mode {"spec":{"mode":null}}`,
		`spec.nested.deep from 5 to 0 {"spec":{"nested":{"deep":0}}}`,
		`remove spec.on {"spec":{"on":null}}`,
		`remove spec.nested.deep {"spec":{"nested":{"deep":null}}}`,
	}
	if !slices.Equal(got[:len(got)-2], want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got[:len(got)-2], "\n"), strings.Join(want, "\n"))
	}
	if back := edits[len(edits)-2]; back.Name != "back to the first spec" {
		t.Errorf("%+v", back)
	}
	if last := edits[len(edits)-1]; last.Name != "delete" || !last.Delete || last.Object.Name != "a" {
		t.Errorf("%+v", last)
	}
}

func TestGenerateWithoutSchema(t *testing.T) {
	edits := document.Generate(apiservertest.Parse(t, gadget), nil, 3)
	var names []string
	for _, e := range edits {
		names = append(names, e.Name)
	}
	want := "spec.count from 1 to 2, spec.free from 2 to 3, spec.id from \"x1\" to \"x1x\", back to the first spec, delete"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for text, want := range map[string]string{
		string(configMap("c", "a")): `data.text from "a" to "ax", back to the first data, delete`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"key":"YQ=="}}`: `data.key from "YQ==" to "b3RoZXI=", back to the first data, delete`,
		`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"s"}}`:               "delete",
	} {
		edits := document.Generate(apiservertest.Parse(t, text), nil, 3)
		names = nil
		for _, e := range edits {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestEditsThatAreNeverMade fails an exploration whose edits the API server refuses, and notes those that change nothing.
func TestEditsThatAreNeverMade(t *testing.T) {
	for name, test := range map[string]struct {
		edit   world.Edit
		edits  int
		want   string
		failed bool
	}{
		"misspelled": {editOf("bigger", map[string]any{"sice": 3}), 1, `Failed: The edit "bigger" of Thing default/a was never made: unknown field "spec.sice".`, true},
		"partly":     {editOf("bigger", map[string]any{"size": 3, "txt": "y"}), 1, `unknown field "spec.txt"`, true},
		"refused":    {editOf("huge", map[string]any{"size": 9}), 1, "spec.size in body should be less than or equal to 3", true},
		"unchanged":  {editOf("same", map[string]any{"size": 2}), 1, `The edit "same" of Thing default/a was never made: it changes nothing in what was explored, with at most 1 edit.`, false},
		"made":       {editOf("other", map[string]any{"size": 1}), 1, "", false},
		"not tried":  {editOf("huge", map[string]any{"size": 9}), 0, "", false},
	} {
		o := system(t, numbered)
		o.Edits, o.Bounds.Edits = []world.Edit{test.edit}, test.edits
		report := run(t, o)
		wantViolations(t, report)
		if report.Passed() == test.failed || (len(report.Unmade) == 0) != (test.want == "") {
			t.Errorf("%s: passed %v, %v", name, report.Passed(), report.Unmade)
		}
		wantText(t, report.String(), test.want)
	}
}

// TestEditsThatNeedOthers are made if another one comes first: what is refused at the beginning is no failure.
func TestEditsThatNeedOthers(t *testing.T) {
	o := system(t, numbered)
	o.Edits, o.Bounds.Edits = []world.Edit{editOf("back", map[string]any{"size": 2}), editOf("one", map[string]any{"size": 1})}, 2
	if report := run(t, o); !report.Passed() || len(report.Unmade) > 0 {
		t.Errorf("%+v", report.Unmade)
	}
}

// TestGeneratedEditsAreGuesses notes those that the API server refuses.
func TestGeneratedEditsAreGuesses(t *testing.T) {
	o := system(t, numbered)
	guess := editOf("spec.size from 2 to 9", map[string]any{"size": 9})
	guess.Generated = true
	o.Edits, o.Bounds.Edits = []world.Edit{guess}, 1
	report := run(t, o)
	if !report.Passed() || len(report.Unmade) > 0 {
		t.Errorf("%+v", report.Unmade)
	}
	wantText(t, report.String(), "The API server refuses these generated edits: spec.size from 2 to 9 (")
}

// TestRefusalsInAPart shows that a search that ends early does not fail because of an edit that may be possible later.
func TestRefusalsInAPart(t *testing.T) {
	for name, test := range map[string]struct {
		spec   map[string]any
		passed bool
	}{"too large": {map[string]any{"size": 9}, true}, "misspelled": {map[string]any{"sice": 1}, false}} {
		o := system(t, numbered)
		o.Edits, o.Bounds = []world.Edit{editOf("an edit", test.spec), editOf("another", map[string]any{"size": 1})}, explore.Bounds{Edits: 2, States: 20}
		report := run(t, o)
		if report.Cut == "" || len(report.Unmade) != 1 || report.Passed() != test.passed {
			t.Errorf("%s: %s", name, report.String())
		}
	}
}

package explore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/document"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// output drops what a program prints.
type output struct{}

func (output) Write(p []byte) (int, error) { return len(p), nil }
func (output) Flush()                      {}

// files are an operator without a program: its hook is never reached.
const files = `
-- crd.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, minimum: 0}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
-- controller.yaml --
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: things}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {webhook: {url: "http://127.0.0.1:1"}}}
`

const sample = `
-- sample.yaml --
apiVersion: example.com/v1
kind: Thing
metadata: {name: a}
spec: {size: 1}
`

func open(t *testing.T, text string) *workspace.Workspace {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, txtar.Write(txtar.Parse([]byte(text)), dir))
	w := must.Get(workspace.Open(t.Context(), workspace.Options{
		Paths: []string{dir}, Executable: os.Args[0], Output: func(string) process.Output { return output{} },
	})).In(t)
	t.Cleanup(w.Close)
	return w
}

const header = "-- exploration.yaml --\napiVersion: test.setpoint.dev/v1alpha1\nkind: Exploration\nmetadata: {name: x}\n"

// optionsOf returns the options of the first exploration in files.
func optionsOf(t *testing.T, text string, bounds explore.Bounds) explore.Options {
	t.Helper()
	w := open(t, text)
	return must.Get(must.Get(document.Read(w)).In(t)[0].Options(t.Context(), w, bounds)).In(t)
}

func TestTheDefaultExploration(t *testing.T) {
	if all := must.Get(document.Read(open(t, files+sample))).In(t); len(all) != 1 || all[0].Name != "things" {
		t.Fatal(all)
	}
	options := optionsOf(t, files+sample, explore.Bounds{Edits: 1})
	var names []string
	for _, e := range options.Edits {
		names = append(names, e.Name)
	}
	if got, want := strings.Join(names, ", "), "spec.size from 1 to 2, spec.size from 1 to 0, remove spec.size, back to the first spec, delete"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	_, err := explore.Explore(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "so that nothing was explored; the first: compositecontroller.setpoint.dev/things sync: ") {
		t.Errorf("%v, want the error of the hook, which nothing serves", err)
	}
}

func TestAnExploration(t *testing.T) {
	options := optionsOf(t, files+header+`
controller: things
objects:
- {apiVersion: example.com/v1, kind: Thing, metadata: {name: b}, spec: {size: 2}}
edits:
- {name: three, patch: {spec: {size: 3}}}
- {name: another, create: {apiVersion: example.com/v1, kind: Thing, metadata: {name: c}}}
- {name: away, of: {kind: Thing, name: b}, delete: true}
invariants:
- {name: few, always: children.size() < 3}
unchecked: [SameEnd]
bounds: {edits: 0, crashes: 1, time: 10s, states: 100, writes: 7}
`, explore.Bounds{Edits: 5, Faults: 2})
	want := explore.Bounds{Edits: 0, Crashes: 1, Faults: 2, Time: 10e9, States: 100, Writes: 7}
	if options.Bounds != want || len(options.Edits) != 3 || options.Objects[0].Namespace() != "default" || len(options.Unchecked) != 1 {
		t.Errorf("%+v", options)
	}
}

// TestANamespaceAmongTheObjects stores it once, although another object is in it.
func TestANamespaceAmongTheObjects(t *testing.T) {
	hook := serveHook(t, func(string, string, int) string { return `{"children":[]}` })
	options := optionsOf(t, strings.Replace(files, "http://127.0.0.1:1", hook.URL, 1)+header+`
objects:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- {apiVersion: example.com/v1, kind: Thing, metadata: {name: b, namespace: shop}}
edits: [{name: away, of: {kind: Namespace}, delete: true}]
`, explore.Bounds{Edits: 1})
	wantViolations(t, run(t, options))
}

func TestExplorationsWithErrors(t *testing.T) {
	for text, want := range map[string]string{
		"controller: other":    `x: controller: "other" is not in the files`,
		"unchecked: [Perfect]": `unchecked: "Perfect" is no property; there are Deterministic`,
		"bounds: {time: soon}": `bounds.time: "soon" must be a duration such as 30s`,
		"bounds: {edits: -1}":  "bounds.edits: must be from 0 to 20, is -1",
		"bounds: {edit: 1}":    `unknown field "bounds.edit"`,
		"invariants: [{name: a, always: childs.size() < 3}]": "invariants[0].always: 1:1: undeclared reference to 'childs'",
		"edits: [{name: a}]":                                      "edits[0]: has to have one of patch, create and delete",
		"edits: [{patch: {}}]":                                    "edits[0].name: is required",
		"edits: [{name: a, of: {name: z}, delete: true}]":         "edits[0].of: fits 0 objects",
		"objects: [{apiVersion: v1, kind: Pod}]":                  "objects[0]: metadata.name: is required",
		"edits: [{name: a, create: {kind: Pod, apiVersion: v1}}]": "edits[0].create: metadata.name: is required",
	} {
		w := open(t, files+sample+header+text+"\n")
		all, err := document.Read(w)
		if err == nil {
			_, err = all[0].Options(t.Context(), w, explore.Bounds{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	w := open(t, files+header)
	all := must.Get(document.Read(w)).In(t)
	if _, err := all[0].Options(t.Context(), w, explore.Bounds{}); err == nil || !strings.Contains(err.Error(), "the files have no samples") {
		t.Error(err)
	}
}

// dependent is a controller that finalizes, with a child of one kind and a related object of another.
const dependent = `
-- crds.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: parts, singular: part, kind: Part, listKind: PartList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plans.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: plans, singular: plan, kind: Plan, listKind: PlanList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
-- controller.yaml --
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: things}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: things, labelSelector: {matchLabels: {managed: "yes"}}}
  childResources: [{apiVersion: example.com/v1, resource: parts}]
  hooks:
    sync: {webhook: {url: "HOOK/sync"}}
    finalize: {webhook: {url: "HOOK/finalize"}}
    customize: {webhook: {url: "HOOK/customize"}}
-- sample.yaml --
apiVersion: example.com/v1
kind: Thing
metadata: {name: a, labels: {managed: "yes"}}
---
apiVersion: example.com/v1
kind: Plan
metadata: {name: a}
`

// serveHook starts a hook that responds to a path, with the name of a parent and the number of its parts, until the test ends.
func serveHook(t *testing.T, respond func(path, parent string, parts int) string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Parent   struct{ Metadata struct{ Name string } }
			Children map[string]map[string]json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		_, _ = w.Write([]byte(respond(r.URL.Path, request.Parent.Metadata.Name, len(request.Children["Part.example.com/v1"]))))
	}))
	t.Cleanup(server.Close)
	return server
}

// dependentOn opens a controller with a finalize hook.
func dependentOn(t *testing.T, finalize func(children int) string) explore.Options {
	t.Helper()
	server := serveHook(t, func(path, parent string, parts int) string {
		switch path {
		case "/customize":
			return `{"relatedResources":[{"apiVersion":"example.com/v1","resource":"plans"}]}`
		case "/finalize":
			return finalize(parts)
		}
		return fmt.Sprintf(`{"children":[{"apiVersion":"example.com/v1","kind":"Part","metadata":{"name":%q}}]}`, parent)
	})
	return optionsOf(t, strings.ReplaceAll(dependent, "HOOK", server.URL), explore.Bounds{Time: 3 * time.Hour})
}

// TestDeletionNeedsNothingElse deletes objects while kinds are not served and rights are missing, with their namespace, and
// after they have left the selection: they go, as long as the hook answers.
func TestDeletionNeedsNothingElse(t *testing.T) {
	options := dependentOn(t, func(children int) string {
		if children > 0 {
			return `{"children":[]}`
		}
		return `{"children":[],"finalized":true}`
	})
	report := run(t, options)
	wantViolations(t, report)
	wantText(t, report.String(), "Deletion was explored while things.example.com/v1 is not served any more, parts.example.com/v1 is not served any more, parts.example.com/v1 may not be written any more, "+
		"plans.example.com/v1 is not served any more, plans.example.com/v1 may not be read any more, with the namespace, and after the object has left the selection: ")
}

// TestDeletionThatNeedsAChild finds a hook that waits for a child which no controller can create any more.
func TestDeletionThatNeedsAChild(t *testing.T) {
	options := dependentOn(t, func(children int) string {
		if children == 0 {
			return `{"children":[{"apiVersion":"example.com/v1","kind":"Part","metadata":{"name":"part"}}]}`
		}
		return `{"children":[],"finalized":true}`
	})
	report := run(t, options)
	wantViolations(t, report, property.Finalized)
	wantText(t, report.String(), "Thing explored/a is being deleted for ever")
}

// TestAnEditOfTheOnlySample has no object of its own, although a second one is explored.
func TestAnEditOfTheOnlySample(t *testing.T) {
	options := optionsOf(t, files+sample+header+"edits: [{name: two, patch: {spec: {size: 2}}}]\n", explore.Bounds{Edits: 1})
	if len(options.Passes) != 1 || options.Passes[0].Options.Edits[0].Object != things.Ref("default", "a").Identity() {
		t.Errorf("%+v", options.Passes)
	}
}

// exploreSamples explores the controller of things by its samples. The hook gives each thing one ConfigMap.
func exploreSamples(t *testing.T, nameOf func(parent string) string) *explore.Report {
	t.Helper()
	server := serveHook(t, func(_, parent string, _ int) string {
		return fmt.Sprintf(`{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}]}`, nameOf(parent))
	})
	text := strings.Replace(files, "http://127.0.0.1:1", server.URL, 1) + sample
	return run(t, optionsOf(t, text, explore.Bounds{Edits: 1, Time: 3 * time.Hour}))
}

// TestTwoOfEachKind shows that a second object is explored of which the files say nothing, and what the report says besides.
func TestTwoOfEachKind(t *testing.T) {
	report := exploreSamples(t, func(parent string) string { return "of-" + parent })
	wantViolations(t, report)
	wantText(t, report.String(), "With Thing default/a-1 besides, at most 1 edit, without crashes and faults: ",
		"Edits of spec.size of Thing default/a never changed anything.", "Without invariants nothing is said of the way",
		"Not varied: the order of the writes of one response; what the hook at 127.0.0.1:")
	report = exploreSamples(t, func(string) string { return "fixed" })
	wantViolations(t, report, property.Reconciled)
	wantText(t, report.String(), "create ConfigMap default/fixed: it already exists and is owned by Thing a")
}

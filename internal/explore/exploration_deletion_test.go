package explore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore"
)

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

// dependentOn opens a controller with a finalize hook.
func dependentOn(t *testing.T, finalize func(children int) string) explore.Options {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Parent   struct{ Metadata struct{ Name string } }
			Children map[string]map[string]json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		response := fmt.Sprintf(`{"children":[{"apiVersion":"example.com/v1","kind":"Part","metadata":{"name":%q}}]}`, request.Parent.Metadata.Name)
		switch r.URL.Path {
		case "/customize":
			response = `{"relatedResources":[{"apiVersion":"example.com/v1","resource":"plans"}]}`
		case "/finalize":
			response = finalize(len(request.Children["Part.example.com/v1"]))
		}
		_, _ = w.Write([]byte(response))
	}))
	t.Cleanup(server.Close)
	w := open(t, strings.ReplaceAll(dependent, "HOOK", server.URL))
	all, err := explore.Read(w)
	if err != nil {
		t.Fatal(err)
	}
	options, err := all[0].Options(t.Context(), w, explore.Bounds{Time: 3 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return options
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
	wantText(t, report.Text(), "Deletion was explored while things.example.com/v1 is not served any more, parts.example.com/v1 is not served any more, parts.example.com/v1 may not be written any more, "+
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
	wantViolations(t, report, explore.Finalized)
	wantText(t, report.Text(), "Thing explored/a is being deleted for ever")
	deletion := options.Passes[len(options.Passes)-1].Options
	deletion.Edits = slices.DeleteFunc(deletion.Edits, func(e explore.Edit) bool { return e.Object.Kind.Kind == "Namespace" })
	_, err := explore.ReplayOn(t.Context(), deletion, run(t, deletion).Violations[0], nil)
	if err == nil || !strings.Contains(err.Error(), "takes a kind or a right away, which is not done to a cluster that others use: ") {
		t.Errorf("%v", err)
	}
}

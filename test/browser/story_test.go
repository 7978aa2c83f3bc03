package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// forgetful has a hook that never lets go of a child.
const forgetful = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Set, plural: sets, singular: set, listKind: SetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: sets}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: sets}
  childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
  hooks:
    sync:
      inline:
        language: Starlark
        source: |
          def sync(request):
              size = max(request["parent"]["spec"].get("size", 0), len(request["children"]["ConfigMap.v1"]))
              return {"children": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-%d" % i}} for i in range(size)]}
---
apiVersion: test.setpoint.dev/v1alpha1
kind: Exploration
metadata: {name: sizes}
objects: [{apiVersion: example.com/v1, kind: Set, metadata: {name: a}, spec: {size: 1}}]
edits: [{name: smaller, patch: {spec: {size: 0}}}]
invariants: [{name: as many as wanted, eventually: 'parents.all(p, children.size() == p.spec.size)'}]
unchecked: [SameEnd]
bounds: {edits: 1, crashes: 0, faults: 0}
`

// TestStoryTimeline reads the timeline of a violation, which a test has found, with the keyboard.
func TestStoryTimeline(t *testing.T) {
	t.Parallel()
	binary, err := findBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	operator, page := filepath.Join(dir, "operator.yaml"), filepath.Join(dir, "story.html")
	if err := os.WriteFile(operator, []byte(forgetful), 0o600); err != nil {
		t.Fatal(err)
	}
	// It fails, since a property is violated.
	output, err := exec.CommandContext(t.Context(), binary, "test", operator, "--stories", dir, "--timeline", page).CombinedOutput()
	if _, failed := err.(*exec.ExitError); !failed {
		t.Fatalf("%v\n%s", err, output)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.ServeFile(w, r, page)
		}
	}))
	t.Cleanup(server.Close)
	p := newPage(t, server.URL)
	p.open("/")
	p.see("sizes-as-many-as-wanted")
	p.see("as many as wanted: it is not so at rest")
	p.see("Other controllers")
	p.audit()
	p.tabTo("Setpoint: 2. Setpoint: create ConfigMap default/c-0.")
	p.press("Enter")
	p.see("State after this step")
	p.see("ConfigMap default/c-0")
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.expectNoOverflow()
}

package workspace_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// portVariable makes this program a hook that listens on a port.
const portVariable = "WORKSPACE_TEST_HOOK_PORT"

func TestMain(m *testing.M) {
	if port := os.Getenv(portVariable); port != "" {
		err := http.ListenAndServe(net.JoinHostPort("127.0.0.1", port), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"status": {"kubeconfig": "`+os.Getenv("KUBECONFIG")+`", "token": "`+r.Header.Get("Authorization")+`"}, "children": []}`)
		}))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// output drops what a program prints.
type output struct{ io.Writer }

func (output) Flush() {}

func read(t *testing.T, text string, paths ...string) (*workspace.Workspace, error) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	executable := must.Get(os.Executable()).In(t)
	must.Succeed(t, txtar.Write(txtar.Parse([]byte(strings.ReplaceAll(text, "SELF", executable))), dir))
	w, err := workspace.Open(t.Context(), workspace.Options{
		Paths: paths, Executable: executable,
		Output: func(string) process.Output { return output{io.Discard} },
	})
	if w != nil {
		t.Cleanup(w.Close)
	}
	return w, err
}

const operator = `
-- setpoint.yaml --
apply: [crd.yaml, controller.yaml, sample.yaml]
processes:
- command: [SELF]
  env: {WORKSPACE_TEST_HOOK_PORT: "{port}"}
  service: hook.things
- {name: operator, command: ["false"]}
-- crd.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object}}}
-- controller.yaml --
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: things}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks:
    sync:
      webhook:
        url: http://hook.things/sync
        authorization: {secretRef: {namespace: ops, name: hook, key: token}}
-- sample.yaml --
apiVersion: example.com/v1
kind: Thing
metadata: {name: one}
---
apiVersion: v1
kind: Secret
metadata: {name: hook, namespace: ops}
stringData: {token: abc}
-- deploy.yaml --
apiVersion: v1
kind: Namespace
metadata: {name: not-applied}
-- tests/more.yaml --
apiVersion: test.setpoint.dev/v1alpha1
kind: Case
metadata: {name: one}
-- cases.yaml --
apiVersion: test.setpoint.dev/v1alpha1
kind: Case
metadata: {name: two}
`

func TestOpen(t *testing.T) {
	w := must.Get(read(t, operator, ".")).In(t)
	got := map[string][]string{}
	for _, o := range w.Objects {
		got["objects"] = append(got["objects"], o.Ref().String())
	}
	for _, d := range w.Tests {
		got["tests"] = append(got["tests"], d.File+" "+d.Object.GetName())
	}
	for _, o := range w.SamplesOf(w.Controllers[0]) {
		got["samples"] = append(got["samples"], o.Ref().String())
	}
	want := map[string][]string{
		"objects": {"Thing default/one", "Secret ops/hook"},
		"tests":   {"cases.yaml two", "tests/more.yaml one"},
		"samples": {"Thing default/one"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	response := must.Get(w.Controllers[0].Programs[0].Sync.Call(t.Context(), &hook.Request{
		Parent: w.Objects[0].JSON(), Controller: []byte("{}"), Children: []hook.Group{{APIVersion: "v1", Kind: "ConfigMap"}},
	})).In(t)
	if want := `{"kubeconfig": "/dev/null", "token": "Bearer abc"}`; string(response.Status) != want {
		t.Errorf("status %s, want %s", response.Status, want)
	}
}

func TestOpenErrors(t *testing.T) {
	for _, c := range []struct{ name, from, to, path, want string }{
		{"a program that exits", "command: [SELF]", `command: ["false"]`, ".", "setpoint.yaml: process hook (false): exited with code 1"},
		{"a program that does not exist", "command: [SELF]", "command: [no-such-program]", ".", `exec: "no-such-program": executable file not found in $PATH`},
		{"an unknown field", "hooks:", "hoks: {}\n  hooks:", ".", `controller.yaml: document 1 (line 7): CompositeController/things: unknown field "spec.hoks"`},
		{"a kind that Kubernetes does not have", "resource: configmaps", "resource: configmap", ".", "spec.childResources[0]: configmap of v1: not served by the API server"},
		{"a broken CRD", "kind: Thing, plural", "plural", ".", "CustomResourceDefinition/things.example.com: spec.names: kind and plural are required"},
		{"no such file", "", "", "gone.yaml", "gone.yaml: no such file"},
		{"no such folder", "", "", "gone", "gone: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(t, strings.Replace(operator, c.from, c.to, 1), c.path)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestFolderWithoutProject(t *testing.T) {
	w := must.Get(read(t, strings.Replace(operator, "-- setpoint.yaml --", "-- other.txt --", 1), ".", "crd.yaml")).In(t)
	if len(w.Objects) != 3 || len(w.Tests) != 2 || len(w.CRDs) != 1 || len(w.Kinds.Assumed()) != 0 {
		t.Errorf("%d objects, %d tests, %d CRDs", len(w.Objects), len(w.Tests), len(w.CRDs))
	}
}

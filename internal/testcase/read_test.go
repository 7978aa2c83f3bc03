package testcase

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// output drops what a program prints.
type output struct{ io.Writer }

func (output) Flush() {}

// respond is a hook that returns the whole request in its status, and selects Secrets.
func respond(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // The test sees what is missing.
	switch r.URL.Path {
	case "/customize":
		_, _ = io.WriteString(w, `{"relatedResources": [{"apiVersion": "v1", "resource": "secrets", "labelSelector": {}}]}`)
	case "/finalize":
		_, _ = io.WriteString(w, `{"children": [], "finalized": true}`)
	case "/sync":
		children := `[]`
		if strings.Contains(string(body), `"want":"x"`) {
			children = `[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}]`
		}
		_, _ = io.WriteString(w, `{"children": `+children+`, "status": {"request": `+string(body)+`, "big": 9007199254740993}}`)
	default:
		_, _ = io.WriteString(w, `{"status": {"request": `+string(body)+`}}`)
	}
}

// open returns the workspace of a folder with files.
func open(t *testing.T, files string) *workspace.Workspace {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	must.Succeed(t, txtar.Write(txtar.Parse([]byte(files)), dir))
	server := httptest.NewServer(http.HandlerFunc(respond))
	t.Cleanup(server.Close)
	var dialer net.Dialer
	w := must.Get(workspace.Open(t.Context(), workspace.Options{
		Paths: []string{"."}, Executable: os.Args[0], Output: func(string) process.Output { return output{io.Discard} },
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, server.Listener.Addr().String())
		},
		Routed: func(string) bool { return true },
	})).In(t)
	t.Cleanup(w.Close)
	return w
}

const operator = `
-- crd.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {want: {type: string}, size: {type: integer, default: 3}}},
      status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}
-- composite.yaml --
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: things}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
  hooks:
    sync: {webhook: {url: "http://hook.test/sync"}}
    finalize: {webhook: {url: "http://hook.test/finalize"}}
    customize: {webhook: {url: "http://hook.test/customize"}}
-- decorator.yaml --
apiVersion: setpoint.dev/v1alpha1
kind: DecoratorController
metadata: {name: labels}
spec:
  resources: [{apiVersion: v1, resource: pods}, {apiVersion: v1, resource: services}]
  attachments: [{apiVersion: v1, resource: configmaps}]
  hooks:
    sync: {webhook: {url: "http://hook.test/sync"}}
-- handlers.yaml --
apiVersion: setpoint.dev/v1alpha1
kind: HandlerController
metadata: {name: notes}
spec:
  resource: {apiVersion: v1, resource: secrets}
  handlers:
  - {name: note, reasons: [Create, Update], webhook: {url: "http://hook.test/note"}}
  - {name: tick, every: 1m, webhook: {url: "http://hook.test/tick"}}
-- cases.yaml --
`

// caseOf returns a document of a case.
func caseOf(fields string) string {
	return "apiVersion: test.setpoint.dev/v1alpha1\nkind: Case\nmetadata: {name: c}\n" + fields
}

// TestRead finds the hooks that cases mean.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct{ fields, want string }{
		"the only hook with children":    {"request: {parent: {}, children: []}\nhook: sync", "CompositeController/things sync"},
		"sync is the default":            {"request: {parent: {}}", "CompositeController/things sync"},
		"finalizing":                     {"request: {parent: {}, finalizing: true}", "CompositeController/things finalize"},
		"finalize":                       {"hook: finalize\nrequest: {parent: {}}", "CompositeController/things finalize"},
		"finalize and finalizing":        {"hook: finalize\nrequest: {parent: {}, finalizing: true}", "CompositeController/things finalize"},
		"customize":                      {"hook: customize\nrequest: {parent: {}}", "CompositeController/things customize"},
		"a decorator by kind":            {"controller: DecoratorController/labels\nrequest: {object: {apiVersion: v1, kind: Pod}}", "DecoratorController/labels sync"},
		"a decorator by its fields":      {"request: {object: {apiVersion: v1, kind: Service}, attachments: []}", "DecoratorController/labels sync"},
		"a handler":                      {"hook: note\nrequest: {object: {}, reason: Create}", "HandlerController/notes note"},
		"the handler of a reason":        {"controller: notes\nrequest: {object: {}, reason: Timer}", "HandlerController/notes tick"},
		"a controller in another case":   {"controller: compositecontroller/THINGS\nrequest: {parent: {}}", "CompositeController/things sync"},
		"no such controller":             {"controller: thing\nrequest: {parent: {}}", `controller: "thing" is not in the files, which have CompositeController/things, DecoratorController/labels, HandlerController/notes`},
		"no such hook":                   {"hook: sink\nrequest: {parent: {}}", `hook: no controller of the files has a hook "sink" for the object of the request; they have customize, finalize, note, sync, tick`},
		"sync that finalizes":            {"hook: sync\nrequest: {parent: {}, finalizing: true}", "request.finalizing: true contradicts hook: sync; leave it out"},
		"finalize that does not":         {"hook: finalize\nrequest: {parent: {}, finalizing: false}", "request.finalizing: false contradicts hook: finalize; leave it out"},
		"a kind that it does not have":   {"request: {parent: {apiVersion: v1, kind: Node}}", "request: no controller of the files has a hook for Node of v1"},
		"two kinds of objects":           {"controller: labels\nrequest: {object: {}}", "request: DecoratorController/labels has several kinds of objects; give the object an apiVersion and a kind"},
		"two handlers":                   {"controller: notes\nrequest: {object: {}}", "hook: required, one of note, tick"},
		"two controllers":                {"request: {object: {}}", "controller: required, one of DecoratorController/labels, HandlerController/notes"},
		"a field of another hook":        {"hook: customize\nrequest: {parent: {}, children: []}", "request.children: unknown field of a case of CompositeController/things customize, which has controller, parent, object"},
		"a field of another response":    {"request: {parent: {}}\nexpect: {attachments: []}", "expect.attachments: unknown field of a case of CompositeController/things sync"},
		"an unknown field":               {"request: {parent: {}}\nexpects: {}", `unknown field "expects"`},
		"children that are neither form": {"request: {parent: {}, children: 3}", "children, attachments, related and owned must be a list of objects, or groups"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Read(open(t, operator+caseOf(test.fields)+"\n"))
			got := ""
			if err != nil {
				got = err.Error()
			}
			for _, c := range all {
				got += c.target.controller.String() + " " + c.target.hook
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestRun compares what hooks get of abridged requests.
func TestRun(t *testing.T) {
	const same = ""
	for name, test := range map[string]struct{ fields, want string }{
		"groups of all kinds":         {"request: {parent: {}}\nexpect: {status: {}}", "ConfigMap.v1: {}"},
		"a number that differs":       {"request: {parent: {}}\nexpect: {status: {big: 9007199254740992}}", "-   big: 9007199254740992\n"},
		"its neighbor":                {"request: {parent: {}}\nexpect: {status: {big: 9007199254740993}}", "  status:\n    big: 9007199254740993\n"},
		"groups of related kinds":     {"request: {parent: {}}\nexpect: {status: {}}", "+       Secret.v1: {}"},
		"a related object":            {"request: {parent: {}, related: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]}\nexpect: {status: {}}", "+         default/s:"},
		"one that is not selected":    {"request: {parent: {}, related: [{apiVersion: v1, kind: Pod, metadata: {name: p}}]}\nexpect: {}", "request.related[0]: the hook gets no Pod of v1 there, but Secret of v1"},
		"related without customize":   {"controller: labels\nrequest: {object: {apiVersion: v1, kind: Pod}, related: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]}\nexpect: {}", "request.related: DecoratorController/labels has no customize hook"},
		"a child of another kind":     {"request: {parent: {}, children: [{apiVersion: v1, kind: Pod, metadata: {name: p}}]}\nexpect: {}", "request.children[0]: the hook gets no Pod of v1 there, but ConfigMap of v1"},
		"a child without a name":      {"request: {parent: {}, children: [{}]}\nexpect: {}", "request.children[0].metadata.name: required"},
		"a name that is a number":     {"request: {parent: {}, children: [{metadata: {name: 5}}]}\nexpect: {}", "request.children[0].metadata.name: required, as a string"},
		"metadata that is text":       {"request: {parent: {metadata: a}}\nexpect: {}", "request.parent.metadata: must be an object"},
		"no parent":                   {"controller: things\nrequest: {}\nexpect: {}", "request.parent: required"},
		"no expectation":              {"request: {parent: {}}", "expect: required"},
		"a reason that is not its":    {"hook: note\nrequest: {object: {}, reason: Delete}\nexpect: {}", "request.reason: the handler has [Create Update], not Delete"},
		"no reason":                   {"hook: note\nrequest: {object: {}}\nexpect: {}", "request.reason: required, one of [Create Update]"},
		"a reason by previous state":  {"hook: note\nrequest: {object: {}, previousState: {data: {a: Yg==}}}\nexpect: {status: {}}", "+     reason: Update"},
		"a timer":                     {"hook: tick\nrequest: {object: {}}\nexpect: {status: {}}", "+     reason: Timer"},
		"writes of a child to create": {"request: {parent: {spec: {want: x}}}\nexpect: {writes: []}", "+ - create ConfigMap x\n"},
		"writes of one to delete":     {"request: {parent: {}, children: [{metadata: {name: a}}]}\nexpect: {writes: [create ConfigMap x]}", "+ - delete ConfigMap a\n"},
		"writes that are expected":    {"request: {parent: {spec: {want: x}}, children: [{metadata: {name: a}}]}\nexpect: {writes: [delete ConfigMap a, create ConfigMap x]}", same},
		"nothing to write":            {"request: {parent: {spec: {want: x}}, children: [{metadata: {name: x}, data: {a: b}}]}\nexpect: {writes: []}", same},
		"one that differs":            {"request: {parent: {spec: {want: x}}, children: [{metadata: {name: x}, data: {a: c}}]}\nexpect: {writes: [update ConfigMap x]}", same},
		"a default":                   {"request: {parent: {spec: {}}}\nexpect: {status: {}}", "+         size: 3\n"},
		"finalized":                   {"hook: finalize\nrequest: {parent: {}}\nexpect: {finalized: true, children: []}", same},
	} {
		t.Run(name, func(t *testing.T) {
			all := must.Get(Read(open(t, operator+caseOf(test.fields)+"\n"))).In(t)
			r := Run(t.Context(), all[0])
			if got := r.Difference + r.Error; !strings.Contains(got, test.want) || (got == "") != (test.want == same) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestUpdate rewrites the expectations of failed cases.
func TestUpdate(t *testing.T) {
	const file = "# Two cases.\n" + `apiVersion: test.setpoint.dev/v1alpha1
kind: Case
metadata: {name: a}
hook: finalize # when it goes
request: {parent: {}}
expect:
  # The parent goes at once.
  finalized: false
---
apiVersion: test.setpoint.dev/v1alpha1
kind: Case
metadata: {name: b}
hook: finalize
request: {parent: {}}
expect: {finalized: true}
`
	all := must.Get(Read(open(t, operator+file))).In(t)
	results, err := Update(lists.Map(all, func(c *Case) Result { return Run(t.Context(), c) }))
	if err != nil || !results[0].Updated || results[1].Updated {
		t.Fatal(results, err)
	}
	got := must.Get(os.ReadFile(filepath.Join(".", "cases.yaml"))).In(t)
	if diff := cmp.Diff(strings.Replace(file, "finalized: false", "finalized: true", 1), string(got)); diff != "" {
		t.Error(diff)
	}
}

// TestUpdateKeepsCasesOfFailingHooks has a hook that does not respond: its error is no new expectation.
func TestUpdateKeepsCasesOfFailingHooks(t *testing.T) {
	of := &Case{}
	of.spec.Expect = expect{"children": []byte("[]")}
	failed := Result{Name: "a", File: filepath.Join(t.TempDir(), "missing.yaml"), Response: fields{fieldError: "no such host"}, of: of}
	results, err := Update([]Result{failed})
	if err != nil || results[0].Passed || results[0].Updated {
		t.Errorf("%+v, %v", results[0], err)
	}
}

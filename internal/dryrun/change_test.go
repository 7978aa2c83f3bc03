package dryrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

func parsed(t *testing.T, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

// configMap returns a ConfigMap with data such as `"a":"1"` and more metadata.
func configMap(t *testing.T, version int, data, metadata string) *object.Object {
	t.Helper()
	return parsed(t, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n","uid":"u","resourceVersion":"%d"%s},"data":{%s}}`, version, metadata, data))
}

var configMaps = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}

func TestDryRunChange(t *testing.T) {
	one, other := configMap(t, 1, `"a":"1"`, ""), configMap(t, 1, `"a":"2","b":"3"`, "")
	again := configMap(t, 2, `"a":"1"`, "")
	remembered := configMap(t, 2, `"a":"1"`, `,"annotations":{"setpoint.dev/applied-fields":"x"}`)
	deleting := configMap(t, 2, `"a":"1"`, `,"deletionTimestamp":"2026-01-01T00:00:00Z"`)
	for name, c := range map[string]struct {
		action plan.Action
		stored *object.Object
		err    error
		want   string
	}{
		"create": {plan.Action{Verb: plan.Create, After: one, Reason: "missing"}, other, nil,
			`create ConfigMap n/c missing [apiVersion data.a data.b! kind metadata.name metadata.namespace]`},
		"apply of a new one": {plan.Action{Verb: plan.Apply, After: one}, one, nil,
			`create ConfigMap n/c  [apiVersion data.a kind metadata.name metadata.namespace]`},
		"update":                  {plan.Action{Verb: plan.Update, Before: one, After: other}, other, nil, `update ConfigMap n/c  [data.a data.b]`},
		"apply":                   {plan.Action{Verb: plan.Apply, Before: one, After: other}, other, nil, `update ConfigMap n/c  [data.a data.b]`},
		"update of nothing":       {plan.Action{Verb: plan.Update, Before: one, After: other}, again, nil, ``},
		"update of what is noted": {plan.Action{Verb: plan.Update, Before: one, After: remembered, Reason: "memory"}, remembered, nil, `update ConfigMap n/c memory []`},
		// Fault M7: the plan names a field with another notation, the API server the field that
		// would change.
		"apply of another notation": {plan.Action{Verb: plan.Apply, Before: one, After: other, Reason: "data.cpu differs"}, remembered, nil,
			`update ConfigMap n/c only Setpoint's annotations differ []`},
		"apply of another notation beside a change": {plan.Action{Verb: plan.Apply, Before: one, After: other, Reason: "data.cpu differs"}, other, nil,
			`update ConfigMap n/c data.a differs [data.a data.b]`},
		"apply of a change": {plan.Action{Verb: plan.Apply, Before: one, After: other, Reason: "data.b differs"}, other, nil,
			`update ConfigMap n/c data.b differs [data.a data.b]`},
		"adopt":                  {plan.Action{Verb: plan.Adopt, Before: one, After: other}, other, nil, `adopt ConfigMap n/c  [data.a data.b]`},
		"delete":                 {plan.Action{Verb: plan.Delete, Before: one, Reason: "no longer desired"}, nil, nil, `delete ConfigMap n/c no longer desired []`},
		"delete that takes time": {plan.Action{Verb: plan.Delete, Before: one, DryRunVerb: plan.Update}, deleting, nil, `delete ConfigMap n/c  []`},
		"delete not needed":      {plan.Action{Verb: plan.Delete, Before: one, DryRunVerb: plan.Update}, again, nil, ``},
		"noted instead of deleted": {plan.Action{Verb: plan.Delete, Before: one, DryRunVerb: plan.Update}, remembered, nil,
			`update ConfigMap n/c only Setpoint's annotations differ []`},
		"refused": {plan.Action{Verb: plan.Update, Before: one, After: other}, nil, errors.New("no"),
			`update ConfigMap n/c  [data.a data.b] error: rejected by the API server: no`},
		"refused deletion": {plan.Action{Verb: plan.Delete, Before: one}, nil, errors.New("no"),
			`delete ConfigMap n/c  [] error: rejected by the API server: no`},
	} {
		t.Run(name, func(t *testing.T) {
			c.action.Resource, c.action.Ref = configMaps, one.Ref()
			change, differs := dryRunChange(apply.Result{Action: c.action, Stored: c.stored, Err: c.err})
			got := ""
			if differs {
				got = describe(change)
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// describe writes a change with the paths of its fields, defaults marked.
func describe(c Change) string {
	var paths []string
	for _, f := range c.Fields {
		mark := ""
		if f.Default {
			mark = "!"
		}
		paths = append(paths, f.Path+mark)
	}
	text := fmt.Sprintf("%s %s %s %v", c.Action, c.Ref, c.Reason, paths)
	if c.Error != nil {
		text += " error: " + c.Error.Message
	}
	return text
}

func TestRecreated(t *testing.T) {
	a := plan.Action{Verb: plan.Delete, Resource: configMaps, Before: configMap(t, 1, `"a":"1"`, "")}
	a.Ref = a.Before.Ref()
	elsewhere := parsed(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"m"}}`)
	another := parsed(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"}}`)
	wanted := parsed(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"2"}}`)

	change := changeOf(a)
	change.markRecreated(a, []*object.Object{elsewhere, another})
	if got := describe(change); got != "delete ConfigMap n/c  []" {
		t.Error(got)
	}
	change.markRecreated(a, []*object.Object{elsewhere, another, wanted})
	if got := describe(change); got != "recreate ConfigMap n/c  [data.a]" {
		t.Error(got)
	}
}

func TestPlannedNamespaces(t *testing.T) {
	namespace := parsed(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"new"}}`)
	namespaces := object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
	p := plan.Plan{Stages: [][]plan.Action{{
		{Verb: plan.Create, Resource: namespaces, Ref: namespace.Ref(), After: namespace},
		{Verb: plan.Update, Resource: namespaces, Ref: object.Ref{Name: "old"}, Before: namespace, After: namespace},
		{Verb: plan.Create, Resource: configMaps, Ref: object.Ref{Name: "other"}},
	}}}
	if created := createdNamespaces(p); len(created) != 1 || !created["new"] {
		t.Errorf("%v", created)
	}
}

func TestHints(t *testing.T) {
	for want, err := range map[string]error{
		"behind a Service, which is not reachable": &webhook.Error{Err: &net.DNSError{IsNotFound: true, Name: "hook.shop"}},
		"correct the hook's response":              &hook.MalformedError{Path: "children", Err: errors.New("required")},
		"not accepted, so it does":                 &compile.Refusal{Err: errors.New("no")},
		"start the hook":                           &webhook.Error{Err: syscall.ECONNREFUSED},
		"same permissions":                         apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no")),
		"run the command again":                    apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("no")),
	} {
		p := newProblem(fmt.Errorf("sync hook: %w", err))
		(&Report{Controllers: []Controller{{Error: p}}}).hint(cliHint)
		if !strings.Contains(p.Hint, want) || !strings.HasPrefix(p.Message, "sync hook: ") {
			t.Errorf("%v: %+v, want %q", err, p, want)
		}
	}
	if p := newProblem(&hook.MalformedError{Path: "children[0]", Err: errors.New("required")}); p.Path != "children[0]" {
		t.Errorf("%+v", p)
	}
	whatever := newProblem(errors.New("whatever"))
	(&Report{Controllers: []Controller{{Error: whatever}}}).hint(cliHint)
	if whatever.Hint != "" {
		t.Errorf("%+v", whatever)
	}
	// Users of the dashboard have no command line.
	for _, err := range []error{&net.DNSError{}, syscall.ECONNREFUSED, context.DeadlineExceeded} {
		report := Report{Controllers: []Controller{{Objects: []Object{{
			Error: newProblem(&webhook.Error{Err: err}), Calls: []Call{{Changes: []Change{{Error: newProblem(&webhook.Error{Err: err})}}}},
		}}}}}
		report.hint(processHint)
		for _, p := range []*Problem{report.Controllers[0].Objects[0].Error, report.Controllers[0].Objects[0].Calls[0].Changes[0].Error} {
			if p.Hint == "" || strings.Contains(p.Hint, "--") {
				t.Errorf("%v: %q", err, p.Hint)
			}
		}
	}
}

func TestLoopOf(t *testing.T) {
	deployments := object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}
	one := dryRunOf(deployments)
	two := dryRunOf(configMaps, deployments)
	for _, c := range []struct {
		of   *run
		kind string
		want int
		err  string
	}{
		{one, "", 0, ""},
		{two, "", 0, "the controller manages several kinds; write KIND/NAME, the kind being one of configmaps, deployments.apps"},
		{two, "deployments.apps", 1, ""},
		{two, "deployments.other", 0, "the controller does not manage that kind, only configmaps, deployments.apps"},
		{two, "deployments", 0, "the controller does not manage that kind, only configmaps, deployments.apps"},
		{two, "configmaps", 0, ""},
	} {
		got, err := c.of.loopOf(c.kind, "shop")
		if err == nil && got != c.of.loops[c.want] || err != nil && err.Error() != c.err || err == nil && c.err != "" {
			t.Errorf("%q: %v, %v, want %d, %s", c.kind, got, err, c.want, c.err)
		}
	}
}

func dryRunOf(parents ...object.Resource) *run {
	return &run{loops: lists.Map(parents, func(parent object.Resource) *loop { return &loop{kind: parent} })}
}

func TestDedupe(t *testing.T) {
	given := configMap(t, 1, "", "")
	at := func(name string, given *object.Object) target {
		return target{key: queue.Key{Name: name}, manifest: given}
	}
	var got []string
	for _, s := range dedupe([]target{at("a", nil), at("b", nil), at("a", nil), at("b", given), at("c", given), at("c", nil)}) {
		got = append(got, fmt.Sprint(s.key.Name, s.manifest != nil))
	}
	if text := strings.Join(got, " "); text != "afalse btrue ctrue" {
		t.Error(text)
	}
}

// A manifest replaces what users declare; fields of the system and of other managers stay.
func TestMergeManifest(t *testing.T) {
	parse := func(text string) *object.Object {
		return must.Get(object.Parse([]byte(text))).In(t)
	}
	stored := parse(`{"apiVersion":"a/v1","kind":"Shop","metadata":{"name":"s","uid":"u","resourceVersion":"7","generation":3,
		"finalizers":["f"],"labels":{"a":"1","b":"1"},"annotations":{"last":"x"}},"spec":{"size":1,"gone":true},"status":{"ready":true}}`)
	for file, want := range map[string]string{
		`{"apiVersion":"a/v1","kind":"Shop","metadata":{"name":"s","labels":{"b":"2","c":"2"}},"spec":{"size":9007199254740993},"status":{"ready":false}}`: `{"apiVersion":"a/v1","kind":"Shop","metadata":{"annotations":{"last":"x"},"finalizers":["f"],"generation":3,"labels":{"a":"1","b":"2","c":"2"},"name":"s","resourceVersion":"7","uid":"u"},"spec":{"size":9007199254740993},"status":{"ready":true}}`,
		`{"apiVersion":"a/v1","kind":"Shop","metadata":{"name":"s"}}`:                                                                                      `{"apiVersion":"a/v1","kind":"Shop","metadata":{"annotations":{"last":"x"},"finalizers":["f"],"generation":3,"labels":{"a":"1","b":"1"},"name":"s","resourceVersion":"7","uid":"u"},"status":{"ready":true}}`,
	} {
		got := must.Get(mergeManifest(stored, parse(file))).In(t)
		if string(got.JSON()) != want {
			t.Errorf("%s:\ngot  %s\nwant %s", file, got.JSON(), want)
		}
	}
}

// A report lists every object that it shows.
func TestRefsOfAReport(t *testing.T) {
	pod := func(namespace, name string) Ref {
		return Ref{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name}
	}
	report := Report{Controllers: []Controller{{Objects: []Object{{
		Ref:     Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Changes: []Change{{Ref: pod("shop", "made")}},
		Calls: []Call{
			{Changes: []Change{{Ref: pod("bank", "written")}, {Ref: pod("shop", "made")}}},
			{Unchanged: []Ref{{APIVersion: "v1", Kind: "Node", Name: "same"}}},
		},
	}}}, {Error: &Problem{Message: "no"}}}}
	var got []string
	for _, ref := range report.refs() {
		got = append(got, ref.Group+" "+ref.Version+" "+ref.Kind.Kind+" "+ref.Namespace+"/"+ref.Name)
	}
	slices.Sort(got)
	want := []string{" v1 Node /same", " v1 Pod bank/written", " v1 Pod shop/made", "apps v1 Deployment shop/web"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

var update = flag.Bool("update", false, "write what is got into the files")

// TestText reads report.json and compares the text with plain.txt and color.txt, with \<31m for the
// code of red.
func TestText(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := must.Get(txtar.ParseFile(path)).In(t)
			report := reportOf(t, archive.Files[0].Data)
			wrong := false
			for i := range archive.Files[1:] {
				f := &archive.Files[i+1]
				if got := written(t, report, f.Name); got != string(f.Data) {
					wrong = true
					t.Logf("%s: got\n%s\nwant\n%s", f.Name, got, f.Data)
					f.Data = []byte(got)
				}
			}
			if !wrong {
				return
			}
			if !*update {
				t.Fatal("go test ./internal/dryrun -update, if that is what it should be")
			}
			must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
		})
	}
}

// reportOf reads a report and recomputes its summary.
func reportOf(t *testing.T, text []byte) Report {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var r Report
	must.Succeed(t, decoder.Decode(&r))
	r.summarize()
	return r
}

func written(t *testing.T, r Report, file string) string {
	t.Helper()
	var out bytes.Buffer
	must.Succeed(t, r.WriteText(&out, Style{Color: file == "color.txt", Idle: file != "busy.txt"}))
	return strings.ReplaceAll(out.String(), "\x1b[", "<")
}

// Go's encoder escapes HTML for browsers; a plan is read by people.
func TestChangesShowHTML(t *testing.T) {
	change := FieldChange{FieldChange: object.FieldChange{Path: "data.page", From: json.RawMessage(`"\u003ch1\u003e"`), To: json.RawMessage(`"a \u0026 b"`)}}
	if got, want := change.String(), `data.page: "<h1>" -> "a & b"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lineage"
	"github.com/setpoint-dev/setpoint/internal/timeline"
	"github.com/setpoint-dev/setpoint/internal/trace"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// hostile is what names, labels and replies of others may be.
const hostile = "<script>alert(1)</script>\" onmouseover=\"x\u202e\u0007"

var noon = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func webKind() inspect.Kind {
	return inspect.Kind{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true}
}

func podRef(name string) inspect.Ref {
	return inspect.Ref{Kind: inspect.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: name}
}

func webSubject(name, label string) *subject {
	return &subject{
		Ref: inspect.Ref{Kind: webKind(), Namespace: "shop", Name: name, UID: "u1"},
		Meta: metav1.ObjectMeta{
			Labels: map[string]string{"app": label}, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Generation: 3,
			Finalizers: []string{label},
		},
		Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: label, Message: label, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}},
	}
}

func ranRun(id uint64, said string) inspect.Run {
	return inspect.Run{
		ID: id, Controller: "compositecontroller.setpoint.dev/webs", Process: "setpoint", Object: webSubject("a", "").Ref,
		Causes: []string{"child Pod shop/" + said + " changed"}, Began: noon.Add(-time.Duration(100-id) * time.Second),
		Waited: 2 * time.Millisecond, Took: 20 * time.Millisecond, Outcome: "synced", Quiet: 2,
		Steps: []inspect.Step{
			{Took: 5 * time.Millisecond, Ask: &inspect.Ask{What: "sync", Request: json.RawMessage(`{"parent":{}}`), Reply: json.RawMessage(`{"a":"` + "</pre><script>" + `"}`), Previous: id - 1}},
			{At: 5 * time.Millisecond, Plan: &inspect.Planned{Actions: []inspect.Action{{
				Verb: "update", Object: podRef(said), Reason: said,
				Changes: []inspect.Change{{Path: "spec." + said, From: json.RawMessage(`"a"`), To: json.RawMessage(`"<script>"`)}},
			}}}},
			{At: 6 * time.Millisecond, Took: 9 * time.Millisecond, Write: &inspect.Write{Verb: "update", Object: podRef(said), Version: "7"}},
			{At: 15 * time.Millisecond, Event: &inspect.Event{Type: "Warning", Reason: "Told", Message: said}},
		},
	}
}

func failedRun(id uint64, text string) inspect.Run {
	run := ranRun(id, "a")
	run.Outcome, run.Error, run.Next, run.Attempt = "failed", text, noon.Add(5*time.Second), int(id)
	run.Fault = &inspect.Fault{What: trace.HookStatus, Code: 500, Said: text[strings.LastIndex(text, ": ")+2:]}
	run.Steps = []inspect.Step{{Took: time.Millisecond, Ask: &inspect.Ask{What: "sync", Error: text, Request: json.RawMessage(`{}`)}}}
	return run
}

// show renders a page as a browser would get it.
func show(t *testing.T, name string, data any) string {
	t.Helper()
	s := serve(t)
	var out bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&out, "layout", view{Title: "T", Here: "/x", CSRF: "c", Data: data}); err != nil {
		t.Fatal(err)
	}
	checkInert(t, out.String())
	return out.String()
}

// checkInert finds whatever of a page a strict policy would block, or somebody else
// could have written into it.
func checkInert(t *testing.T, html string) {
	t.Helper()
	lower := strings.ToLower(html)
	for _, bad := range []string{" style=", "<style", "<script>", "onmouseover=\"x", "href=\"javascript:", " onclick=", "\u202e", "#zgotmplz", "<no value>"} {
		if at := strings.Index(lower, strings.ToLower(bad)); at >= 0 {
			t.Errorf("the page has %q: …%s…", bad, html[max(0, at-80):min(len(html), at+80)])
		}
	}
}

func wants(t *testing.T, html string, texts ...string) {
	t.Helper()
	plain := strings.Join(strings.Fields(html), " ")
	for _, text := range texts {
		if !strings.Contains(plain, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if t.Failed() {
		t.Log(plain)
	}
}

func objectPageOf(name, said string, runs ...inspect.Run) objectPage {
	s := webSubject(name, said)
	p := objectPage{subject: s, Tab: "timeline"}
	for _, each := range timeline.Entries(runs) {
		p.Entries = append(p.Entries, gathered(s, each))
	}
	care := inspect.Care{
		Ref: s.Ref, Controller: "compositecontroller.setpoint.dev/webs", Process: "setpoint", State: inspect.Well, Ran: noon,
		Family: []inspect.Child{{Ref: podRef(said), Health: "Failed", Message: said}, {Ref: podRef("b"), Health: "Current"}},
	}
	if len(runs) > 0 && runs[0].Error != "" {
		care.State, care.Error, care.Attempts, care.Next = inspect.Failing, runs[0].Error, 3, noon.Add(5*time.Second)
		care.Fault, care.FailingSince = runs[0].Fault, runs[len(p.Entries[0].Earlier)].Began
	}
	declared := inspect.Ref{Kind: inspect.Kind{Group: "setpoint.dev", Version: "v1alpha1", Plural: "compositecontrollers", Kind: "CompositeController"}, Name: "webs"}
	by := told{Source: &still{name: "setpoint"}, Controllers: []inspect.Controller{{Process: "setpoint", Name: care.Controller, Declared: &declared}}}
	p.Cares = careViews([]inspect.Care{care}, []told{by}, p.Entries)
	p.Tree, _ = growTree(context.Background(), s.Ref, []inspect.Care{care}, &lineage.Grower{May: func(inspect.Kind, string) bool { return true }})
	p.Events.All = []asuser.Event{{Type: "Warning", Reason: said, Message: said, Source: said, Count: 3, Last: noon}}
	p.Actions = []action{
		{Label: "Pause", Icon: "pause", Post: true, URL: s.URL("ask"), Fields: map[string]string{"do": "pause"}},
		{Label: "Delete", Icon: "trash", URL: s.URL("delete"), Danger: true, Lacking: "You may not: that takes the right to delete webs.example.org in the namespace shop."},
	}
	return p
}

func TestObjectPage(t *testing.T) {
	html := show(t, "object", objectPageOf("a", "p", ranRun(9, "p"), ranRun(8, "q")))
	wants(t, html,
		"Updated Pod p", "child Pod shop/p changed", `href="/resources/pods/shop/p"`, "waited 2.0ms", "asked 5.0ms", "wrote 9.0ms",
		"2 runs before that found nothing new", "1 of 2 current", "Told: p", "You may not: that takes the right to delete",
		`action="/resources/webs.example.org/shop/a/ask"`, `name="csrf" value="c"`, `id="run-setpoint-9"`)
}

func TestObjectPageOfOthersWords(t *testing.T) {
	html := show(t, "object", objectPageOf("javascript:alert(1)", hostile, failedRun(3, "sync hook: answered 500: "+hostile), ranRun(2, hostile)))
	if !strings.Contains(html, `\u202e`) {
		t.Error("what turns the direction is not shown")
	}
	if long := show(t, "object", objectPageOf("a", strings.Repeat("x", 1<<20), ranRun(2, strings.Repeat("y", 1<<20)))); len(long) > 1<<20 {
		t.Errorf("a page has %d bytes", len(long))
	}
}

func TestObjectPageOfAFailure(t *testing.T) {
	const text = "sync hook: POST http://webs.shop/sync: answered 500 Internal Server Error: no more strings"
	html := show(t, "object", objectPageOf("a", "p", failedRun(5, text), failedRun(4, text), failedRun(3, text), ranRun(2, "p")))
	wants(t, html,
		"The hook failed (500 Internal Server Error)", "no more strings", "Failed 3 times in a row, since <time datetime=\"2030-01-02T03:02:28Z\"", "It is tried again in 5s",
		"3 times, since 03:02:28Z", "2 earlier failures of the same kind", `href="/resources/compositecontrollers.setpoint.dev/-/webs/edit"`, "What helps:")
}

func TestObjectPageOfWhatIsGone(t *testing.T) {
	p := objectPageOf("a", "p", ranRun(2, "p"))
	p.subject = &subject{Ref: p.Ref, Gone: true}
	p.Actions = nil
	// Fault U7: a deletion ends the timeline.
	p.end([]inspect.Run{ranRun(2, "p")})
	wants(t, show(t, "object", p), "Deleted; history is kept in memory only.", "Updated Pod p", `<li class="timeline-entry" id="deletion">`, `<h3 dir="auto">Deleted</h3>`)
	// One that a watch has delivered stands in the order of time, and is no run with details.
	gone := ranRun(3, "p")
	gone.Outcome, gone.Steps, gone.Causes = "deleted", nil, nil
	p.Entries = (&visit{}).entries(p.subject, []inspect.Run{gone}, 1)
	p.end([]inspect.Run{gone, ranRun(2, "p")})
	if html := show(t, "object", p); strings.Contains(html, `id="deletion"`) || !strings.Contains(html, ">Deleted</h3>") || strings.Contains(html, "Details<") {
		t.Error(html)
	}
	p.Gone, p.Meta.DeletionTimestamp, p.Meta.Finalizers = false, &metav1.Time{Time: noon}, []string{"example.com/a", "example.com/b"}
	p.end(nil)
	wants(t, show(t, "object", p), "Deletion requested, waiting for the finalizers example.com/a, example.com/b")
	empty := objectPage{subject: webSubject("a", "b"), Tab: "timeline"}
	wants(t, show(t, "object", empty), "Not managed by a Setpoint controller")
}

func TestRunPage(t *testing.T) {
	s := webSubject("a", hostile)
	run := ranRun(9, hostile)
	p := runPage{subject: s, Entry: newEntry(s, run), Tab: "timeline"}
	p.Steps = stepsOf(s, &p.Entry)
	p.Body = &body{ID: bodyID(run, 0, "reply"), Text: "{\"a\":\"</pre><script>\"}"}
	p.open()
	wants(t, show(t, "object_run", p), "called sync", "decided", "1 write", "resource version 7",
		"/runs/9?in=setpoint&amp;show=request-diff&amp;step=0", "&lt;/pre&gt;&lt;script&gt;", "/runs/8?in=setpoint")
}

func TestPlanPage(t *testing.T) {
	p := planPage{subject: webSubject("a", "b"), Controller: "webs", At: noon, Report: "{}",
		Lines: planLines("webs\n\nWeb shop/a\n  + Pod shop/p  create\n      + spec.x: \"<script>\"\n  - Pod shop/q  delete\n  error: no\n\n1 object: 1 to create. Nothing was written.\n")}
	wants(t, show(t, "object_plan", p), `plan-add"> &#43; Pod shop/p create`, `plan-del"> - Pod shop/q`, `plan-bad"> error: no`, "Nothing was written.")
	p.Fault = explain("sync hook: POST http://x: connection refused", &inspect.Fault{What: trace.HookAbsent}, runFailed)
	wants(t, show(t, "object_plan", p), "Nobody listens at the hook&#39;s address")
}

func TestYAMLPage(t *testing.T) {
	s := webSubject("a", "b")
	s.Kind = inspect.Kind{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	s.raw = json.RawMessage(`{"kind":"Secret","metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"czNjcmV0"},"managedFields":[{"manager":"kubectl"}]},"data":{"p":"czNjcmV0"}}`)
	p := yamlPage{subject: s, Tab: "yaml"}
	if err := p.write(s); err != nil {
		t.Fatal(err)
	}
	html := show(t, "object_yaml", p)
	wants(t, html, "*** (hidden)", "manager: kubectl", "The values of a Secret are hidden")
	if strings.Contains(html, "czNjcmV0") {
		t.Error("a secret is shown")
	}
}

func TestExplain(t *testing.T) {
	const text = "sync hook: POST http://h/sync: answered 500 Internal Server Error: lookup x: tls: no"
	got := explain(text, &inspect.Fault{What: trace.HookStatus, Code: 500, Said: "lookup x: tls: no", Path: "a.b"}, runFailed)
	if got.Title != "The hook failed (500 Internal Server Error)" || got.Said != "lookup x: tls: no" || got.Path != "a.b" || !got.Hook || got.Text != text {
		t.Errorf("%+v", got)
	}
	// Of what only words are known, these are not read.
	for _, of := range []*inspect.Fault{nil, {What: "of a later version"}} {
		if got := explain(text, of, runFailed); got.Title != runFailed || got.Help != "" || got.Hook || got.Text != text {
			t.Errorf("%+v", got)
		}
	}
}

func TestBar(t *testing.T) {
	run := ranRun(1, "a")
	got := barOf(&run)
	at := 0
	for _, part := range got.Parts {
		if part.From != at || part.Width < 1 {
			t.Errorf("%+v does not begin at %d", part, at)
		}
		at += part.Width
	}
	if got.Total != 22*time.Millisecond || len(got.Parts) != 4 || at > barWhole {
		t.Errorf("%+v", got)
	}
	// What is written at once takes longer in sum than the run.
	run.Steps = []inspect.Step{{Took: time.Second, Ask: &inspect.Ask{}}, {Took: time.Second, Write: &inspect.Write{}}}
	for _, part := range barOf(&run).Parts {
		if part.Took > run.Took {
			t.Errorf("%+v takes longer than the run", part)
		}
	}
	if got := barOf(&inspect.Run{}); len(got.Parts) != 0 {
		t.Errorf("nothing took %+v", got)
	}
}

func TestTreeLeavesOutWhatMayNotBeRead(t *testing.T) {
	secret := podRef("s")
	secret.Kind = inspect.Kind{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	care := inspect.Care{Family: []inspect.Child{{Ref: podRef("a"), Health: "Current"}, {Ref: secret}, {Ref: podRef("b"), Health: "Failed"}}}
	got, err := growTree(t.Context(), webSubject("a", "").Ref, []inspect.Care{care, care}, &lineage.Grower{May: func(k inspect.Kind, _ string) bool { return k.Kind == "Pod" }})
	if err != nil || len(got.Children) != 2 || got.Children[0].Name != "b" || got.Hidden != 1 || got.Well != 1 || got.Total != 2 {
		t.Errorf("%+v", got)
	}
}

func TestHeadlines(t *testing.T) {
	self := webSubject("a", "b").Ref
	write := func(verb, part string, of inspect.Ref) inspect.Step {
		return inspect.Step{Write: &inspect.Write{Verb: verb, Part: part, Object: of}}
	}
	for _, c := range []struct {
		outcome, want string
		steps         []inspect.Step
	}{
		{"synced", "Deleted Pod p", []inspect.Step{write("delete", "", podRef("p"))}},
		{"synced", "Updated its status", []inspect.Step{write("update", "status", self)}},
		{"synced", "Deleted Pod p, updated its status", []inspect.Step{write("delete", "", podRef("p")), write("update", "status", self)}},
		{"synced", "Created 2, deleted 1, updated its status twice", []inspect.Step{
			write("create", "", podRef("p")), write("create", "", podRef("q")), write("delete", "", podRef("r")), write("update", "status", self), write("update", "status", self),
		}},
		// Fault U1: one object that is written three times is one, not three.
		{"synced", "Updated its status 3 times", []inspect.Step{write("update", "status", self), write("update", "status", self), write("update", "status", self)}},
		{"synced", "Nothing to do", []inspect.Step{{Write: &inspect.Write{Verb: "update", Unchanged: true}}}},
		{"synced", "Asked: nothing to do", []inspect.Step{{Ask: &inspect.Ask{}}}},
		{"postponed", "Postponed", nil},
		{"denied", "Creation denied", []inspect.Step{{Ask: &inspect.Ask{Review: &inspect.Review{Operation: "create", Denied: true}}}}},
	} {
		run := inspect.Run{Object: self, Outcome: c.outcome, Steps: c.steps}
		if got := newEntry(webSubject("a", "b"), run).Headline; got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// What changed, and who changed it, is found by the requests of two runs and the
// managed fields of the object that is there.
func TestWhys(t *testing.T) {
	s := webSubject("a", "b")
	s.Meta.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-edit", Operation: "Update", Time: &metav1.Time{Time: noon.Add(-92 * time.Second)},
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:image":{}}}`),
	}}
	request := func(image, phase string) json.RawMessage {
		return json.RawMessage(`{"parent":{"apiVersion":"example.org/v1","kind":"Web","metadata":{"namespace":"shop","name":"a","uid":"u1"},"spec":{"image":"` + image +
			`"}},"children":{"Pod.v1":{"p":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"p"},"status":{"phase":"` + phase + `"}}}}}`)
	}
	before, after := ranRun(7, "p"), ranRun(9, "p")
	before.Steps[0].Ask.Request, after.Steps[0].Ask.Request = request("a", "Pending"), request("b", "Running")
	after.Steps[0].Ask.Previous = 7
	// What the run sees of its own doing is no reason for it.
	own := inspect.Ask{What: "sync", Request: request("c", "Failed"), Previous: 7}
	after.Steps = append(after.Steps, inspect.Step{Ask: &own})
	after.Causes = []string{"the object changed", "child Pod shop/p changed", "recheck"}
	server := serve(t, &still{name: "setpoint", runs: []inspect.Run{after, before}})
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
	v := &visit{Server: server, r: r, api: &asuser.Client{}, visitor: &access.Visitor{User: asuser.User{Own: true}}}
	entries := v.entries(s, []inspect.Run{after}, 10)
	if len(entries) != 1 || len(entries[0].Whys) != 2 || strings.Join(entries[0].Rest, ",") != "recheck" {
		t.Fatalf("%+v", entries)
	}
	whys := entries[0].Whys
	if whys[0].Fields[0].Path != "spec.image" || len(whys[0].By) != 1 || whys[0].By[0] != "kubectl-edit" || whys[1].Object.Name != "p" {
		t.Errorf("%+v", whys)
	}
	html := show(t, "object", objectPage{subject: s, Tab: "timeline", Entries: entries})
	wants(t, html, `the object itself</span> changed <span class="by">by <strong dir="auto">kubectl-edit</strong>`, "<del dir=\"ltr\">a</del>", "Running")
}

// Fault U1: what the controller itself wrote after its call changes the next request, and
// is no trigger: a child that was deleted is.
func TestOwnWritesAreNoTrigger(t *testing.T) {
	request := func(n, children string) json.RawMessage {
		return json.RawMessage(`{"parent":{"apiVersion":"example.org/v1","kind":"Web","metadata":{"namespace":"shop","name":"a","uid":"u1"},"status":{"n":` + n + `}},"children":{"Pod.v1":{` + children + `}}}`)
	}
	before, after := ranRun(7, "p"), ranRun(9, "p")
	before.Steps[0].Ask.Request = request("1", `"p":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"p"}}`)
	after.Steps[0].Ask.Request, after.Steps[0].Ask.Previous = request("2", ""), 7
	after.Causes = []string{"child Pod shop/p changed", "retry"}
	server := serve(t, &still{name: "setpoint", runs: []inspect.Run{after, before}})
	v := &visit{Server: server, r: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), api: &asuser.Client{}, visitor: &access.Visitor{User: asuser.User{Own: true}}}
	got := v.entries(webSubject("a", "b"), []inspect.Run{after}, 10)
	r := got[0].reasons
	if len(r.Whys) != 1 || r.Whys[0].Object.Name != "p" || len(r.Beside) != 1 || r.Beside[0].Role != "object" || strings.Join(r.Rest, ",") != "retry" {
		t.Fatalf("%+v", r)
	}
	html := show(t, "object", objectPage{subject: webSubject("a", "b"), Tab: "timeline", Entries: got})
	if gone, also := strings.Index(html, "is gone"), strings.Index(html, "Also changed since the call before"); gone < 0 || also < gone || strings.Index(html, "the object itself") < also {
		t.Errorf("the child at %d, what changed beside at %d", gone, also)
	}
}

// Fault U1: in a rolling update a run asks about the former revision too. That is no edit.
func TestWhysOfARollingUpdate(t *testing.T) {
	s := webSubject("a", "b")
	asked := func(image string, at inspect.Revision) inspect.Step {
		request := `{"parent":{"apiVersion":"example.org/v1","kind":"Web","metadata":{"namespace":"shop","name":"a","uid":"u1"},"spec":{"image":"` + image + `"}}}`
		return inspect.Step{Ask: &inspect.Ask{What: "sync", Revision: &at, Request: json.RawMessage(request), Previous: 7}}
	}
	old, latest := inspect.Revision{Name: "a", Number: 1, Former: true}, inspect.Revision{Name: "b", Number: 2}
	before, after := ranRun(7, "p"), ranRun(9, "p")
	before.Steps = []inspect.Step{asked("b", latest), asked("a", old)}
	after.Steps, after.Causes = []inspect.Step{asked("a", old), asked("b", latest), asked("a", old)}, []string{"periodic resync"}
	server := serve(t, &still{name: "setpoint", runs: []inspect.Run{after, before}})
	v := &visit{Server: server, r: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), api: &asuser.Client{}, visitor: &access.Visitor{User: asuser.User{Own: true}}}
	entries := v.entries(s, []inspect.Run{after}, 10)
	if len(entries[0].Whys) != 0 || strings.Join(entries[0].Rest, ",") != "periodic resync" {
		t.Errorf("%+v", entries[0].reasons)
	}
	p := runPage{subject: s, Entry: entries[0], Tab: "timeline", Steps: stepsOf(s, &entries[0])}
	html := show(t, "object_run", p)
	wants(t, html, "at the former revision 1", "at the latest revision 2")
	if strings.Contains(html, "after its writes") {
		t.Error("nothing was written in between")
	}
}

// Fault U3: a denial says by which webhook of which controller, why, and that nothing was
// stored; a mutation what it changed.
func TestObjectPageOfReviews(t *testing.T) {
	s := webSubject("a", "b")
	s.Gone = true
	reviewed := func(id uint64, outcome string, r inspect.Review) inspect.Run {
		run := ranRun(id, "p")
		run.Controller, run.Outcome, run.Causes = "admissioncontroller.setpoint.dev/webs", outcome, []string{"create by anna"}
		run.Steps = []inspect.Step{{Ask: &inspect.Ask{What: "check-image", Review: &r}}}
		return run
	}
	denied := reviewed(9, "denied", inspect.Review{Operation: "create", Denied: true, Message: "no digest"})
	mutated := reviewed(8, "mutated", inspect.Review{Operation: "create", Changes: []inspect.Change{{Path: "spec.tier", To: json.RawMessage(`"gold"`)}}})
	server := serve(t, &still{name: "setpoint", runs: []inspect.Run{denied, mutated}})
	v := &visit{Server: server, r: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), api: &asuser.Client{}, visitor: &access.Visitor{User: asuser.User{Own: true}}}
	runs := []inspect.Run{denied, mutated}
	p := objectPage{subject: s, Tab: "timeline", Entries: v.entries(s, runs, 10), NeverStored: timeline.NeverStored(runs)}
	wants(t, show(t, "object", p), "It was not stored: its creation was denied", "Creation denied", "create by anna", "no digest",
		"check-image</span> of admissioncontroller.setpoint.dev/webs", "Creation mutated and allowed", "spec.tier", "gold")
}

// Fault U5: what a person did stands before what else changed.
func TestWhatLeadsComesFirst(t *testing.T) {
	e := newEntry(webSubject("a", "b"), ranRun(9, "p"))
	e.reasons = reasons{Leads: []string{"hook changed"}, Whys: []why{{Part: diff.Part{Role: "object", Fate: diff.Changed}}}, Rest: []string{"retry 3"}}
	html := show(t, "object", objectPage{subject: webSubject("a", "b"), Tab: "timeline", Entries: []entry{e}})
	if lead, changed, rest := strings.Index(html, "hook changed"), strings.Index(html, "the object itself"), strings.Index(html, "retry 3"); lead < 0 || lead > changed || changed > rest {
		t.Errorf("told at %d, %d, %d", lead, changed, rest)
	}
}

func TestPlanLinesAreBounded(t *testing.T) {
	lines := planLines(strings.Repeat("+ x\n", 1<<20))
	if last := lines[len(lines)-1].Text; len(lines) > maxPlan || last != "… and more" {
		t.Errorf("%d lines, the last %q", len(lines), last)
	}
}

// What does not settle has not failed, and what is paused is not tried again, whatever it
// failed with before.
func TestOnlyWhatFailsIsFaulty(t *testing.T) {
	for state, want := range map[inspect.State]string{
		inspect.Unsettled: "It is written again and again", inspect.Paused: "A user wants it left alone",
	} {
		p := objectPageOf("a", "p", ranRun(2, "p"))
		care := p.Cares[0].Care
		care.State, care.Unrest = state, "Pod shop/p: spec.x differs again and again"
		p.Cares = careViews([]inspect.Care{care}, nil, p.Entries)
		html := show(t, "object", p)
		wants(t, html, want)
		if strings.Contains(html, "The last run failed") || strings.Contains(html, "tried again") {
			t.Errorf("%s is shown as a failure: %s", state, html)
		}
		care.Error = "as a process of before said it"
		if views := careViews([]inspect.Care{care}, nil, nil); views[0].Fault != nil {
			t.Errorf("%s has a fault", state)
		}
	}
}

// A page of who stands by says who does the work, and not that nothing was done.
func TestObjectPageOfWhoStandsBy(t *testing.T) {
	p := objectPageOf("a", "p")
	care := p.Cares[0].Care
	care.State = inspect.NotKnown
	source := &still{name: "setpoint", process: inspect.Process{Name: "setpoint", Elects: true, Leader: "setpoint-1"}}
	v := visiting(t, "/")
	v.options.Sources = func(context.Context) []inspect.Source {
		return []inspect.Source{source, &still{name: "another", process: source.process}}
	}
	told := v.carers([]inspect.Care{care})
	p.Cares, p.Caveats = careViews([]inspect.Care{care}, told, nil), caveats(told)
	html := show(t, "object", p)
	wants(t, html, "Unknown", "is known where the work is done", "stands by: setpoint-1 does the work, and has the timeline", "is not known here")
	if len(p.Caveats) != 1 || strings.Contains(html, "appears here by itself") || strings.Contains(html, "Well") {
		t.Errorf("caveats %q: %s", p.Caveats, html)
	}
}

// What nobody works on, as a watch is missing, is not said to be worked on elsewhere.
func TestObjectPageOfWhatNobodyWorksOn(t *testing.T) {
	p := objectPageOf("a", "p")
	care := p.Cares[0].Care
	care.State = inspect.NotKnown
	for _, process := range []inspect.Process{{Name: "setpoint", Leads: true}, {Name: "setpoint", Elects: true, Leads: true}} {
		p.Cares = careViews([]inspect.Care{care}, []told{{Source: &still{name: "setpoint"}, Process: process}}, nil)
		html := show(t, "object", p)
		wants(t, html, "It is not worked on here yet", "its condition Ready")
		if strings.Contains(html, "where the work is done") {
			t.Errorf("%+v: %s", process, html)
		}
	}
}

// What was a moment ago was not "now ago".
func TestMomentsAgo(t *testing.T) {
	run := ranRun(9, "p")
	run.Began = noon
	p := objectPageOf("a", "p", run)
	p.Cares[0].Ran, p.Meta.CreationTimestamp = noon, metav1.NewTime(noon)
	p.Meta.DeletionTimestamp = &p.Meta.CreationTimestamp
	html := show(t, "object", p)
	if strings.Contains(html, "now</time> ago") || strings.Contains(html, "now ago") || strings.Count(html, "just now") != 4 {
		t.Errorf("%d times just now: %s", strings.Count(html, "just now"), html)
	}
}

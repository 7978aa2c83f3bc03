package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func webSubject(name, label string) *Object {
	return &Object{
		Ref: object.Ref{Kind: webKind(), Namespace: "shop", Name: name, UID: "u1"},
		Meta: metav1.ObjectMeta{
			Labels: map[string]string{"app": label}, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Generation: 3,
			Finalizers: []string{label},
		},
		Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: label, Message: label, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}},
	}
}

func newRun(id uint64, message string) inspect.Run {
	return inspect.Run{
		ID: id, Controller: "compositecontroller.setpoint.dev/webs", Process: "setpoint", Object: webSubject("a", "").Ref,
		Causes: []string{"child Pod shop/" + message + " changed"}, Began: noon.Add(-time.Duration(100-id) * time.Second),
		QueuedFor: 2 * time.Millisecond, Took: 20 * time.Millisecond, Outcome: "synced", Noops: 2,
		Steps: []inspect.Step{
			{Took: 5 * time.Millisecond, Call: &inspect.Call{Name: "sync", Request: json.RawMessage(`{"parent":{}}`), Response: json.RawMessage(`{"a":"` + "</pre><script>" + `"}`), Previous: id - 1}},
			{At: 5 * time.Millisecond, Plan: &record.Planned{Actions: []inspect.Action{{
				Verb: "update", Object: podRef(message), Reason: message,
				Changes: []inspect.Change{{Path: "spec." + message, From: json.RawMessage(`"a"`), To: json.RawMessage(`"<script>"`)}},
			}}}},
			{At: 6 * time.Millisecond, Took: 9 * time.Millisecond, Write: &inspect.Write{Verb: "update", Object: podRef(message), Version: "7"}},
			{At: 15 * time.Millisecond, Event: &hook.Event{Type: "Warning", Reason: "Told", Message: message}},
		},
	}
}

func newFailedRun(id uint64, text string) inspect.Run {
	run := newRun(id, "a")
	run.Outcome, run.Error, run.Next, run.Attempt = "failed", text, noon.Add(5*time.Second), int(id)
	run.Fault = &inspect.Fault{Kind: failure.HookStatus, Code: 500, Body: text[strings.LastIndex(text, ": ")+2:]}
	run.Steps = []inspect.Step{{Took: time.Millisecond, Call: &inspect.Call{Name: "sync", Error: text, Request: json.RawMessage(`{}`)}}}
	return run
}

func newObjectPage(name, message string, runs ...inspect.Run) objectPage {
	s := webSubject(name, message)
	p := objectPage{Object: s}
	for _, each := range timeline.Entries(runs) {
		p.Entries = append(p.Entries, newEntry(s, each))
	}
	state := inspect.ObjectState{
		Ref: s.Ref, Controller: "compositecontroller.setpoint.dev/webs", Process: "setpoint", State: inspect.StateSynced, Ran: noon,
		ChildStates: []inspect.Child{{Ref: podRef(message), Health: "Failed", Message: message}, {Ref: podRef("b"), Health: "Current"}},
	}
	if len(runs) > 0 && runs[0].Error != "" {
		state.State, state.Error, state.Attempts, state.Next = inspect.StateFailing, runs[0].Error, 3, noon.Add(5*time.Second)
		state.Fault, state.FailingSince = runs[0].Fault, runs[len(p.Entries[0].Earlier)].Began
	}
	declared := object.Ref{Kind: object.Kind{Group: "setpoint.dev", Version: "v1alpha1", Plural: "compositecontrollers", Kind: "CompositeController"}, Name: "webs"}
	by := processes.Info{Source: &runSource{name: "setpoint"}, Controllers: []inspect.Controller{{Process: "setpoint", Name: state.Controller, Declared: &declared}}}
	p.States = s.stateViews([]inspect.ObjectState{state}, []processes.Info{by}, runs)
	p.Tree, _ = buildTree(context.Background(), s.Ref, []inspect.ObjectState{state}, &ownertree.Builder{Processes: noProcesses(), May: func(object.Kind, string) bool { return true }})
	p.Events.All = []userclient.Event{{Type: "Warning", Reason: message, Message: message, Source: message, Count: 3, Last: noon}}
	p.Actions = []web.Action{
		{Label: "Pause", Icon: "pause", Post: true, URL: s.URL("annotate"), Fields: map[string]string{"do": "pause"}},
		{Label: "Delete", Icon: "trash", URL: s.URL("delete"), Danger: true, DisabledReason: `Forbidden: you cannot delete resource "webs" in API group "example.org" in the namespace "shop".`},
	}
	return p
}

func TestObjectPage(t *testing.T) {
	html := renderPage(t, "object", newObjectPage("a", "p", newRun(9, "p"), newRun(8, "q")))
	wantTexts(t, html,
		"Updated Pod p", "child Pod shop/p changed", `href="/resources/pods/shop/p"`, "queue 2.0ms", "hook 5.0ms", "API writes 9.0ms",
		"2 earlier runs without changes", "1 of 2 current", "Told: p", "Forbidden: you cannot delete",
		`action="/resources/webs.example.org/shop/a/annotate"`, `id="run-setpoint-9"`)
}

func TestObjectPageEscapesText(t *testing.T) {
	html := renderPage(t, "object", newObjectPage("javascript:alert(1)", hostile, newFailedRun(3, "sync hook: returned 500: "+hostile), newRun(2, hostile)))
	if !strings.Contains(html, `\u202e`) {
		t.Error("what turns the direction is not shown")
	}
	again, first := newFailedRun(4, "sync hook: returned 500: x"), newFailedRun(3, "sync hook: returned 500: x")
	first.Causes = []string{"create by " + hostile}
	p := newObjectPage("a", "p", again, first)
	p.Entries[0].LeadingCauses = first.Causes
	if html := renderPage(t, "object", p); strings.Count(html, `create by &lt;script&gt;`) != 2 || strings.Count(html, `\u202e`) != 2 {
		t.Errorf("causes are shown as %s", html)
	}
	if long := renderPage(t, "object", newObjectPage("a", strings.Repeat("x", 1<<20), newRun(2, strings.Repeat("y", 1<<20)))); len(long) > 1<<20 {
		t.Errorf("a page has %d bytes", len(long))
	}
}

func TestObjectPageFailure(t *testing.T) {
	const text = "sync hook: POST http://webs.shop/sync: returned 500 Internal Server Error: no more strings"
	html := renderPage(t, "object", newObjectPage("a", "p", newFailedRun(5, text), newFailedRun(4, text), newFailedRun(3, text), newRun(2, "p")))
	wantTexts(t, html,
		"The hook failed (500 Internal Server Error)", "no more strings", "Failed 3 times in a row, since <time datetime=\"2030-01-02T03:02:28Z\"", "Next retry in 5s",
		"3 times, since 03:02:28Z", "2 earlier identical failures", `href="/resources/compositecontrollers.setpoint.dev/-/webs/edit"`, "Hint:")
}

// Reasons of Setpoint have links to what they mean, and those of others, such as hooks and the kubelet, none.
func TestObjectPageLinksReasons(t *testing.T) {
	p := newObjectPage("a", "p", newFailedRun(5, "x: y"))
	p.States[0].Reason = "HookFailed"
	p.Conditions = []metav1.Condition{{Type: "Synced", Reason: "WriteFailed"}, {Type: "Ready", Reason: "Ready"}}
	p.Events.All = []userclient.Event{{Reason: "Paused", Source: "setpoint"}, {Reason: "Told", Source: "setpoint"}, {Reason: "Started", Source: "kubelet"}, {Reason: "Resumed"}, {Reason: "Stopped", Source: "set"}}
	wantTexts(t, renderPage(t, "object", p), `/docs/glossary.md#hookfailed" rel="help noreferrer">HookFailed<span class="visually-hidden">: what it means`,
		`#writefailed" rel`, `#paused" rel`, `!#ready" rel`, `!#told" rel`, `!#started" rel`, `!#resumed" rel`, `!#stopped" rel`)
	p.Group = "setpoint.dev"
	wantTexts(t, renderPage(t, "object", p), `#ready" rel`)
}

func TestObjectPageDeleted(t *testing.T) {
	p := newObjectPage("a", "p", newRun(2, "p"))
	p.Object = &Object{Ref: p.Ref, Deleted: true}
	p.Actions = nil
	// Fault U7: a deletion ends the timeline.
	p.setDeletion([]inspect.Run{newRun(2, "p")})
	wantTexts(t, renderPage(t, "object", p), "Deleted; history is kept in memory only.", "Updated Pod p", `<li class="timeline-entry" id="deletion">`, `<h3 dir="auto">Deleted</h3>`)
	// A deletion that a watch delivered is sorted by time and has no details.
	gone := newRun(3, "p")
	gone.Outcome, gone.Steps, gone.Causes = "deleted", nil, nil
	p.Entries = (&Request{}).timelineEntries(p.Object, []inspect.Run{gone}, 1)
	p.setDeletion([]inspect.Run{gone, newRun(2, "p")})
	if html := renderPage(t, "object", p); strings.Contains(html, `id="deletion"`) || !strings.Contains(html, ">Deleted</h3>") || strings.Contains(html, "Details<") {
		t.Error(html)
	}
	p.Deleted, p.Meta.DeletionTimestamp, p.Meta.Finalizers = false, &metav1.Time{Time: noon}, []string{"example.com/a", "example.com/b"}
	p.setDeletion(nil)
	wantTexts(t, renderPage(t, "object", p), "Deletion requested, waiting for the finalizers example.com/a, example.com/b")
	empty := objectPage{Object: webSubject("a", "b")}
	wantTexts(t, renderPage(t, "object", empty), "Not managed by a Setpoint controller")
}

func TestRunPage(t *testing.T) {
	s := webSubject("a", hostile)
	run := newRun(9, hostile)
	p := RunPage{Object: s, Entry: newEntry(s, timeline.Entry{Run: run})}
	p.Body = &Body{ID: bodyID(&run, 0, "response"), Text: "{\"a\":\"</pre><script>\"}"}
	p.SetSteps()
	wantTexts(t, renderPage(t, "object_run", p), "called sync", "planned", "1 write", "resource version 7",
		"/runs/9?in=setpoint&amp;show=request-diff&amp;step=0", "&lt;/pre&gt;&lt;script&gt;", "/runs/8?in=setpoint")
}

func TestPlanPage(t *testing.T) {
	p := Plan{Object: webSubject("a", "b"), Controller: "webs", CreatedAt: noon, Report: "{}",
		Lines: planLines("webs\n\nWeb shop/a\n  + Pod shop/p  create\n      + spec.x: \"<script>\"\n  - Pod shop/q  delete\n  error: no\n\n1 object: 1 to create. Nothing was written.\n")}
	wantTexts(t, renderPage(t, "object_plan", p), `plan-add"> &#43; Pod shop/p create`, `plan-del"> - Pod shop/q`, `plan-bad"> error: no`, "Nothing was written.")
	p.Fault = describeFault("sync hook: POST http://x: connection refused", &inspect.Fault{Kind: failure.HookUnreachable}, runFailedTitle)
	wantTexts(t, renderPage(t, "object_plan", p), "Connection to the hook refused")
}

func TestYAMLPage(t *testing.T) {
	s := webSubject("a", "b")
	s.Kind = object.Kind{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	s.Raw = json.RawMessage(`{"kind":"Secret","metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"czNjcmV0"},"managedFields":[{"manager":"kubectl"}]},"data":{"p":"czNjcmV0"}}`)
	p := yamlPage{Object: s}
	must.Succeed(t, p.setText(s))
	html := renderPage(t, "object_yaml", p)
	wantTexts(t, html, "*** (hidden)", "manager: kubectl", "Secret values are hidden", "!czNjcmV0")
}

func TestDescribeFault(t *testing.T) {
	const text = "sync hook: POST http://h/sync: returned 500 Internal Server Error: lookup x: tls: no"
	got := describeFault(text, &inspect.Fault{Kind: failure.HookStatus, Code: 500, Body: "lookup x: tls: no", Path: "a.b"}, runFailedTitle)
	if got.Title != "The hook failed (500 Internal Server Error)" || got.Response != "lookup x: tls: no" || got.Path != "a.b" || !got.Hook || got.Text != text {
		t.Errorf("%+v", got)
	}
	// Unknown faults have only a text.
	for _, of := range []*inspect.Fault{nil, {Kind: "of a later version"}} {
		if got := describeFault(text, of, runFailedTitle); got.Title != runFailedTitle || got.Help != "" || got.Hook || got.Text != text {
			t.Errorf("%+v", got)
		}
	}
}

func TestTimingBar(t *testing.T) {
	run := newRun(1, "a")
	bar := func(run inspect.Run) []timingPart {
		return entry{Entry: timeline.Entry{Run: run}}.TimingBar()
	}
	got := bar(run)
	at := 0
	for _, part := range got {
		if part.Offset != at || part.Width < 1 {
			t.Errorf("%+v does not begin at %d", part, at)
		}
		at += part.Width
	}
	if len(got) != 4 || at > timingBarWidth {
		t.Errorf("%+v", got)
	}
	// Parallel writes add up to more than the run took.
	run.Steps = []inspect.Step{{Took: time.Second, Call: &inspect.Call{}}, {Took: time.Second, Write: &inspect.Write{}}}
	for _, part := range bar(run) {
		if part.Took > run.Took {
			t.Errorf("%+v takes longer than the run", part)
		}
	}
	if got := bar(inspect.Run{}); len(got) != 0 {
		t.Errorf("nothing took %+v", got)
	}
}

func noProcesses() *ownertree.Processes {
	return ownertree.NewProcesses(nil, func() []inspect.Result[[]inspect.Controller] { return nil })
}

func TestTreeOmitsForbiddenKinds(t *testing.T) {
	secret := podRef("s")
	secret.Kind = object.Kind{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	state := inspect.ObjectState{ChildStates: []inspect.Child{{Ref: podRef("a"), Health: "Current"}, {Ref: secret}, {Ref: podRef("b"), Health: "Failed"}}}
	got, err := buildTree(t.Context(), webSubject("a", "").Ref, []inspect.ObjectState{state, state}, &ownertree.Builder{Processes: noProcesses(), May: func(k object.Kind, _ string) bool { return k.Kind == "Pod" }})
	if err != nil || len(got.Children) != 2 || got.Children[0].Name != "b" || got.Hidden != 1 || got.Current != 1 || got.Total != 2 {
		t.Errorf("%+v", got)
	}
}

func TestHeadlines(t *testing.T) {
	self := webSubject("a", "b").Ref
	write := func(verb, part string, of object.Ref) inspect.Step {
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
		// Fault U1: three writes to one object count as one object.
		{"synced", "Updated its status 3 times", []inspect.Step{write("update", "status", self), write("update", "status", self), write("update", "status", self)}},
		{"synced", "No changes", []inspect.Step{{Write: &inspect.Write{Verb: "update", Unchanged: true}}}},
		{"synced", "No changes", []inspect.Step{{Call: &inspect.Call{}}}},
		{"postponed", "Postponed", nil},
		{"denied", "Creation denied", []inspect.Step{{Call: &inspect.Call{Review: &inspect.Review{Operation: "create", Denied: true}}}}},
	} {
		run := inspect.Run{Object: self, Outcome: c.outcome, Steps: c.steps}
		if got := newEntry(webSubject("a", "b"), timeline.Entry{Run: run}).Headline; got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// Object changes come from the requests of two runs and the managed fields of the object.
func TestObjectChanges(t *testing.T) {
	s := webSubject("a", "b")
	s.Meta.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-edit", Operation: "Update", Time: &metav1.Time{Time: noon.Add(-92 * time.Second)},
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:image":{}}}`),
	}}
	callBody := func(image, phase string) json.RawMessage {
		return json.RawMessage(`{"parent":{"apiVersion":"example.org/v1","kind":"Web","metadata":{"namespace":"shop","name":"a","uid":"u1"},"spec":{"image":"` + image +
			`"}},"children":{"Pod.v1":{"p":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"p"},"status":{"phase":"` + phase + `"}}}}}`)
	}
	before, after := newRun(7, "p"), newRun(9, "p")
	before.Steps[0].Call.Request, after.Steps[0].Call.Request = callBody("a", "Pending"), callBody("b", "Running")
	after.Steps[0].Call.Previous = 7
	// The writes of the run itself are not a trigger.
	own := inspect.Call{Name: "sync", Request: callBody("c", "Failed"), Previous: 7}
	after.Steps = append(after.Steps, inspect.Step{Call: &own})
	after.Causes = []string{"the object changed", "child Pod shop/p changed", "recheck"}
	req := newObjectRequest(&runSource{name: "setpoint", runs: []inspect.Run{after, before}})
	entries := req.timelineEntries(s, []inspect.Run{after}, 10)
	if len(entries) != 1 || len(entries[0].ObjectChanges) != 2 || strings.Join(entries[0].OtherCauses, ",") != "recheck" {
		t.Fatalf("%+v", entries)
	}
	objectChanges := entries[0].ObjectChanges
	if objectChanges[0].Fields[0].Path != "spec.image" || len(objectChanges[0].Authors) != 1 || objectChanges[0].Authors[0] != "kubectl-edit" || objectChanges[1].Object.Name != "p" {
		t.Errorf("%+v", objectChanges)
	}
	html := renderPage(t, "object", objectPage{Object: s, Entries: entries})
	wantTexts(t, html, `the object itself</span> changed<span class="by">, field manager <strong dir="auto">kubectl-edit</strong>`, "<del dir=\"ltr\">a</del>", "Running")
}

// Fault U1: what the controller wrote after its call is not a trigger, but a deleted child is.
func TestOwnWritesAreNotTriggers(t *testing.T) {
	callBody := func(n, children string) json.RawMessage {
		return json.RawMessage(`{"parent":{"apiVersion":"example.org/v1","kind":"Web","metadata":{"namespace":"shop","name":"a","uid":"u1"},"status":{"n":` + n + `}},"children":{"Pod.v1":{` + children + `}}}`)
	}
	before, after := newRun(7, "p"), newRun(9, "p")
	before.Steps[0].Call.Request = callBody("1", `"p":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"p"}}`)
	after.Steps[0].Call.Request, after.Steps[0].Call.Previous = callBody("2", ""), 7
	after.Causes = []string{"child Pod shop/p changed", "retry"}
	req := newObjectRequest(&runSource{name: "setpoint", runs: []inspect.Run{after, before}})
	got := req.timelineEntries(webSubject("a", "b"), []inspect.Run{after}, 10)
	r := got[0].runTriggers
	if len(r.ObjectChanges) != 1 || r.ObjectChanges[0].Object.Name != "p" || len(r.OtherChanges) != 1 || r.OtherChanges[0].Role != "object" || strings.Join(r.OtherCauses, ",") != "retry" {
		t.Fatalf("%+v", r)
	}
	html := renderPage(t, "object", objectPage{Object: webSubject("a", "b"), Entries: got})
	if gone, also := strings.Index(html, "deleted"), strings.Index(html, "Also changed since the previous call"); gone < 0 || also < gone || strings.Index(html, "the object itself") < also {
		t.Errorf("the child at %d, the other change at %d", gone, also)
	}
}

// Fault U1: in a rolling update, a run also calls the hook with the previous revision. That is
// not an edit.
func TestObjectChangesInRollingUpdate(t *testing.T) {
	s := webSubject("a", "b")
	called := func(image string, at record.Revision) inspect.Step {
		callBody := `{"parent":{"apiVersion":"example.org/v1","kind":"Web","metadata":{"namespace":"shop","name":"a","uid":"u1"},"spec":{"image":"` + image + `"}}}`
		return inspect.Step{Call: &inspect.Call{Name: "sync", Revision: &at, Request: json.RawMessage(callBody), Previous: 7}}
	}
	old, latest := record.Revision{Name: "a", Number: 1, Previous: true}, record.Revision{Name: "b", Number: 2}
	before, after := newRun(7, "p"), newRun(9, "p")
	before.Steps = []inspect.Step{called("b", latest), called("a", old)}
	after.Steps, after.Causes = []inspect.Step{called("a", old), called("b", latest), called("a", old)}, []string{"periodic resync"}
	req := newObjectRequest(&runSource{name: "setpoint", runs: []inspect.Run{after, before}})
	entries := req.timelineEntries(s, []inspect.Run{after}, 10)
	if len(entries[0].ObjectChanges) != 0 || strings.Join(entries[0].OtherCauses, ",") != "periodic resync" {
		t.Errorf("%+v", entries[0].runTriggers)
	}
	p := RunPage{Object: s, Entry: entries[0], Steps: stepViews(&entries[0])}
	html := renderPage(t, "object_run", p)
	wantTexts(t, html, "at the former revision 1", "at the latest revision 2", "!after its writes")
}

// Fault U3: a denial names the webhook, the controller and the reason; a mutation shows its
// changes.
func TestObjectPageReviews(t *testing.T) {
	s := webSubject("a", "b")
	s.Deleted = true
	reviewed := func(id uint64, outcome string, r inspect.Review) inspect.Run {
		run := newRun(id, "p")
		run.Controller, run.Outcome, run.Causes = "admissioncontroller.setpoint.dev/webs", outcome, []string{"create by anna"}
		run.Steps = []inspect.Step{{Call: &inspect.Call{Name: "check-image", Review: &r}}}
		return run
	}
	denied := reviewed(9, "denied", inspect.Review{Operation: "create", Denied: true, Message: "no digest"})
	mutated := reviewed(8, "mutated", inspect.Review{Operation: "create", Changes: []inspect.Change{{Path: "spec.tier", To: json.RawMessage(`"gold"`)}}})
	req := newObjectRequest(&runSource{name: "setpoint", runs: []inspect.Run{denied, mutated}})
	runs := []inspect.Run{denied, mutated}
	p := objectPage{Object: s, Entries: req.timelineEntries(s, runs, 10), NeverStored: timeline.NeverStored(runs)}
	wantTexts(t, renderPage(t, "object", p), "Not stored: an admission webhook denied its creation", "Creation denied", "create by anna", "no digest",
		"/controllers/setpoint/admissioncontroller.setpoint.dev~webs/reviews?kind=Web.example.org&amp;name=a&amp;ns=shop", "Creation mutated and allowed", "spec.tier", "gold")
}

// Fault U5: user actions come before other changes.
func TestLeadingCausesComeFirst(t *testing.T) {
	e := newEntry(webSubject("a", "b"), timeline.Entry{Run: newRun(9, "p")})
	e.runTriggers = runTriggers{LeadingCauses: []string{"hook changed"}, ObjectChanges: []objectChange{{ObjectChange: diff.ObjectChange{Role: "object", Type: diff.Modified}}}, OtherCauses: []string{"retry 3"}}
	html := renderPage(t, "object", objectPage{Object: webSubject("a", "b"), Entries: []entry{e}})
	if lead, changed, rest := strings.Index(html, "hook changed"), strings.Index(html, "the object itself"), strings.Index(html, "retry 3"); lead < 0 || lead > changed || changed > rest {
		t.Errorf("at %d, %d, %d", lead, changed, rest)
	}
}

func TestPlanLinesAreBounded(t *testing.T) {
	lines := planLines(strings.Repeat("+ x\n", 1<<20))
	if last := lines[len(lines)-1].Text; len(lines) > maxPlanBytes || last != "… and more" {
		t.Errorf("%d lines, the last %q", len(lines), last)
	}
}

// Conflicting objects have not failed, and paused objects are not retried.
func TestOnlyFailuresShowErrors(t *testing.T) {
	for kind, want := range map[inspect.State]string{
		inspect.StateConflicting: "The controller and another writer keep overwriting each other", inspect.StatePaused: "Paused by the annotation",
	} {
		p := newObjectPage("a", "p", newRun(2, "p"))
		state := p.States[0].ObjectState
		state.State, state.Conflict = kind, "Pod shop/p: spec.x differs again and again"
		p.States = p.stateViews([]inspect.ObjectState{state}, nil, nil)
		html := renderPage(t, "object", p)
		wantTexts(t, html, want)
		if strings.Contains(html, "Last run failed") || strings.Contains(html, "tried again") {
			t.Errorf("%s is shown as a failure: %s", kind, html)
		}
		state.Error = "as a process of before said it"
		if views := p.stateViews([]inspect.ObjectState{state}, nil, nil); views[0].Fault != nil {
			t.Errorf("%s has a fault", kind)
		}
	}
}

// The page of a standby process says that the leader does the work.
func TestObjectPageStandby(t *testing.T) {
	p := newObjectPage("a", "p")
	state := p.States[0].ObjectState
	state.State = inspect.StateUnknown
	source := &runSource{name: "setpoint", process: inspect.Process{Name: "setpoint", LeaderElection: true, Leader: "setpoint-1"}}
	req := newObjectRequest()
	req.Processes.Running = func(context.Context) []inspect.Source {
		return []inspect.Source{source, &runSource{name: "another", process: source.process}}
	}
	known := req.managingProcesses([]inspect.ObjectState{state})
	p.States, p.Caveats = p.stateViews([]inspect.ObjectState{state}, known, nil), caveats(known)
	html := renderPage(t, "object", p)
	wantTexts(t, html, "Standby", "The leader reconciles the object and knows its state", "is a standby; setpoint-1 is the leader and has the history", "No history in this process")
	if len(p.Caveats) != 1 || strings.Contains(html, "appears here automatically") || strings.Contains(html, "Synced") {
		t.Errorf("caveats %q: %s", p.Caveats, html)
	}
}

// An object whose watch is missing is not shown as managed by the leader.
func TestObjectPageNotWatched(t *testing.T) {
	p := newObjectPage("a", "p")
	state := p.States[0].ObjectState
	state.State = inspect.StateUnknown
	for _, process := range []inspect.Process{{Name: "setpoint", IsLeader: true}, {Name: "setpoint", LeaderElection: true, IsLeader: true}} {
		p.States = p.stateViews([]inspect.ObjectState{state}, []processes.Info{{Source: &runSource{name: "setpoint"}, Process: process}}, nil)
		html := renderPage(t, "object", p)
		wantTexts(t, html, "Not reconciled yet", "see its Ready condition", "!where the work is done")
	}
}

// A recent time is not shown as "now ago".
func TestJustNow(t *testing.T) {
	run := newRun(9, "p")
	run.Began = noon
	p := newObjectPage("a", "p", run)
	p.States[0].Ran, p.Meta.CreationTimestamp = noon, metav1.NewTime(noon)
	p.Meta.DeletionTimestamp = &p.Meta.CreationTimestamp
	html := renderPage(t, "object", p)
	if strings.Contains(html, "now</time> ago") || strings.Contains(html, "now ago") || strings.Count(html, "just now") != 4 {
		t.Errorf("%d times just now: %s", strings.Count(html, "just now"), html)
	}
}

// timelineEntries returns the entries of a page with all runs.
func (req *Request) timelineEntries(s *Object, runs []inspect.Run, limit int) []entry {
	found := timeline.Entries(runs)
	return req.entriesOf(s, found[:min(len(found), limit)], runs)
}

// Users see a plan only if they may read all objects in it, in all namespaces.
func TestPlanPermissions(t *testing.T) {
	web := webSubject("a", "b")
	elsewhere := podRef("p")
	elsewhere.Namespace = "bank"
	all := []object.Ref{web.Ref, podRef("p"), elsewhere}
	for _, c := range []struct {
		name  string
		refs  []object.Ref
		own   bool
		may   []string
		lacks string
	}{
		{"all may be read", all, false, []string{"Pod in shop", "Pod in bank"}, ""},
		{"the object itself was read", []object.Ref{web.Ref}, false, nil, ""},
		{"another of its kind was not", []object.Ref{webSubject("other", "").Ref}, false, nil, `cannot get resource "webs" in API group "example.org" in the namespace "shop"`},
		{"a kind may not", all, false, nil, `cannot get resource "pods" in API group "" in the namespace "shop"`},
		{"a namespace may not", all, false, []string{"Pod in shop"}, `cannot get resource "pods" in API group "" in the namespace "bank"`},
		{"the process itself", all, true, nil, ""},
		{"another version", nil, false, []string{"Pod in shop", "Pod in bank"}, "runs a version"},
		{"another version, the process itself", nil, true, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Plan{Object: web}
			p.setPlan(&inspect.Plan{Text: "Web shop/a\n", Report: json.RawMessage(`{}`), Refs: c.refs}, c.own, func(kind object.Kind, namespace string) bool {
				return strings.Contains(strings.Join(c.may, ","), kind.Kind+" in "+namespace)
			})
			shown := len(p.Lines) > 0 && p.Report != ""
			if shown != (c.lacks == "") || !shown && len(p.Lines)+len(p.Report) > 0 || !strings.Contains(p.MissingPermission, c.lacks) {
				t.Errorf("shown %t, lacking %q", shown, p.MissingPermission)
			}
		})
	}
}

// Fault U6: children of a suspended controller, whose health is unknown, were counted as not
// current.
func TestTreeSummary(t *testing.T) {
	for want, of := range map[string]tree{
		"2 of 3 current": {Current: 2, Total: 3}, "1, health unknown": {Unknown: 1, Total: 1},
		"1 of 3 current, health of 2 unknown": {Current: 1, Unknown: 2, Total: 3},
	} {
		if got := of.Summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTreeLimits(t *testing.T) {
	web := func(name string) inspect.Child {
		return inspect.Child{Ref: object.Ref{Kind: webKind(), Namespace: "shop", Name: name, UID: name}, Health: "Current"}
	}
	families := map[string][]inspect.Child{"loop": {web("loop"), web("a")}}
	for i := range maxNodes + 7 {
		families["a"] = append(families["a"], web(fmt.Sprintf("w%03d", i)))
	}
	families["a"][3].Name, families["a"][3].Health = "loop", "Failed"
	source := &runSource{name: "setpoint", children: families}
	controllers := []inspect.Controller{{Name: "webs", Process: "setpoint", Kinds: []object.Kind{webKind()}}}
	panel := ownertree.NewProcesses(inspect.NewTimeouts(time.Second), func() []inspect.Result[[]inspect.Controller] {
		return []inspect.Result[[]inspect.Controller]{{Source: source, Value: controllers}}
	})
	states, _ := source.States(t.Context(), web("a").Ref)
	got, err := buildTree(t.Context(), web("a").Ref, states, &ownertree.Builder{
		Processes: panel, May: func(object.Kind, string) bool { return true },
	})
	if err != nil || len(got.Children) != maxNodes || got.More != 7 || got.Children[0].Name != "loop" || len(got.Children[0].Children) != 0 {
		t.Errorf("%d children and %d more, the first %+v; %v", len(got.Children), got.More, got.Children[0], err)
	}
	if requests := source.calls.Load() - 1; requests != maxCalls || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], fmt.Sprint(maxNodes-maxCalls)) {
		t.Errorf("%d requests, warnings %q", requests, got.Warnings)
	}
}

// Fault U4: users who may not list events saw a raw error and the empty state.
func TestForbiddenEvents(t *testing.T) {
	refusal := web.PermissionProblem(userclient.Permission{User: "ann", Verb: "list", Resource: "events", Namespace: "shop"})
	p := objectPage{Object: &Object{Ref: object.Ref{Kind: object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: "web"}}, Events: eventList{Problem: refusal}}
	body := renderPage(t, "object", p)
	wantTexts(t, body, "User &#34;ann&#34; cannot list resource &#34;events&#34; in API group &#34;&#34; in the namespace &#34;shop&#34;.",
		"kubectl create role events-list --verb=list --resource=events -n shop", "!No events")
}

// Fault U6: "Nothing was done about it yet" stood beside "last run 20m ago".
func TestRunsWithoutHistory(t *testing.T) {
	p := objectPage{Object: &Object{Ref: object.Ref{Name: "web"}}, States: []stateView{{ObjectState: inspect.ObjectState{State: inspect.StateSynced, Ran: time.Now().Add(-20 * time.Minute)}}}}
	body := renderPage(t, "object", p)
	wantTexts(t, body, "History is no longer in memory", "!Not reconciled yet")
}

// A diff has objects that the user cannot get by their names, without what replaces their fields.
func TestHiddenObjectsInDiffs(t *testing.T) {
	const hidden = `{"hidden":"` + inspect.Redacted + `","kind":"Pod","metadata":{"name":"a"}}`
	var same, other Body
	same.compare(json.RawMessage(hidden), json.RawMessage(hidden))
	other.compare(json.RawMessage(hidden), json.RawMessage(strings.Replace(hidden, `"a"`, `"b"`, 1)))
	text := other.Diff.Signed()
	if same.EmptyReason != "No differences in what you can get." || !other.Hidden || strings.Contains(text, inspect.Redacted) {
		t.Errorf("says %q, shows %s", same.EmptyReason, text)
	}
}

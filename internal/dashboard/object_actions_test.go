package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// blockingPlanner is a process whose plans block until released.
type blockingPlanner struct {
	fakeSource
	started, release chan struct{}
}

func (p *blockingPlanner) Plan(context.Context, string, object.Ref, json.RawMessage) (inspect.Plan, error) {
	p.started <- struct{}{}
	<-p.release
	return inspect.Plan{Text: "nothing to do", Report: json.RawMessage("{}")}, nil
}

func TestPlansAreBoundedAndLogged(t *testing.T) {
	_, s := newObjectServer(t, v1Object("ConfigMap", nil))
	var log bytes.Buffer
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	process := &blockingPlanner{fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}}, make(chan struct{}), make(chan struct{})}
	s.Processes.Running = func(context.Context) []inspect.Source { return []inspect.Source{process} }
	fields := url.Values{"process": {"setpoint"}, "controller": {teamsController().Name}}
	const path = "/resources/configmaps/shop/a/plan"
	responses := make(chan int)
	for range 2 {
		go func() { responses <- post(t, s, path, fields).Code }()
		<-process.started
	}
	if w := post(t, s, path, fields); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "Try again in a moment") {
		t.Errorf("one too many has status %d: %s", w.Code, w.Body)
	}
	close(process.release)
	for range 2 {
		if code := <-responses; code != http.StatusOK {
			t.Errorf("a plan has status %d", code)
		}
	}
	if got := log.String(); strings.Count(got, "planned for a dashboard user") != 2 ||
		!strings.Contains(got, "user=dev") || !strings.Contains(got, "resource=configmaps namespace=shop name=a") {
		t.Errorf("the log is %s", got)
	}
}

const objectPath = "/resources/configmaps/shop/a"

// newIncidentServer returns a dashboard with a ConfigMap whose last run failed after its size changed.
func newIncidentServer(t *testing.T) (*objectServer, *Server, *previewSource) {
	t.Helper()
	k, s, source := newPreviewServer(t, v1Object("ConfigMap", map[string]any{"size": "13"}))
	ref := object.Ref{Kind: source.controllers[0].Kinds[0], Namespace: "shop", Name: "a", UID: "u"}
	run := func(id uint64, outcome, size, version string) inspect.Run {
		parent := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"u"},"data":{"size":"` + size + `"}}`
		return inspect.Run{
			ID: id, Controller: source.controllers[0].Name, Process: "setpoint", Object: ref, Outcome: outcome, Attempt: int(id) - 2,
			Began: noon.Add(time.Duration(id) * time.Second), Took: 12 * time.Millisecond, Causes: []string{"the object changed"},
			Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync", Version: version, Previous: id - 1, Request: json.RawMessage(`{"parent":` + parent + `}`), Response: json.RawMessage(`{"children":[]}`)}}},
		}
	}
	bad := run(2, "failed", "13", "teams-2")
	bad.Error, bad.Steps[0].Call.Error, bad.Steps[0].Call.Response = "13 is not a size", "13 is not a size", nil
	again := bad
	again.ID, again.Attempt, again.Began = 3, 1, bad.Began.Add(time.Second)
	source.runs = []inspect.Run{again, bad, run(1, "synced", "3", "teams-1")}
	source.states = []inspect.ObjectState{{
		Ref: ref, Controller: source.controllers[0].Name, Process: "setpoint", State: inspect.StateFailing, Error: bad.Error, Attempts: 2, FailingSince: bad.Began,
	}}
	return k, s, source
}

func TestIncident(t *testing.T) {
	_, s, source := newIncidentServer(t)
	page := get(t, s, objectPath).Body.String()
	checkInert(t, page)
	wantTexts(t, page, "Failed 2 times in a row", "Last good run", "took 12ms", "First failure", "Changed between",
		"the object itself</span> changed", `<code class="path" dir="ltr">data.size</code>`, "<code>teams-1</code>", "<code>teams-2</code>",
		"Retry now", objectPath+"/runs/2/compare?in=setpoint&amp;with=1")

	page = get(t, s, objectPath+"/runs/2/compare?in=setpoint&with=1").Body.String()
	checkInert(t, page)
	wantTexts(t, page, `diff-del"> &#34;size&#34;: &#34;3&#34;`, `diff-add"> &#34;size&#34;: &#34;13&#34;`, "The later call has no response: 13 is not a size")
	for _, path := range []string{"/runs/2/compare?in=setpoint", "/runs/2/compare?in=setpoint&with=9"} {
		if w := get(t, s, objectPath+path); w.Code != http.StatusNotFound {
			t.Errorf("%s has status %d", path, w.Code)
		}
	}

	source.runs = source.runs[:1]
	page = get(t, s, objectPath).Body.String()
	wantTexts(t, page, "The last good run is no longer in the history.", "The first failure is no longer in the history.", "Retry now",
		"!Compare with last good")
}

// After an edit of the code only, the page says that, and counts from the first failure although the controller has
// been started again with the code.
func TestIncidentAfterChangeOfCode(t *testing.T) {
	_, s, source := newIncidentServer(t)
	good, bad := source.runs[2], source.runs[1]
	loaded := bad.Began.Add(-500 * time.Millisecond)
	for i, run := range source.runs {
		call := *run.Steps[0].Call
		call.Request, call.Version, call.Code = good.Steps[0].Call.Request, "", &inspect.Code{Digest: "b", Since: loaded, Source: "new < 1\n"}
		if run.ID == good.ID {
			call.Code = &inspect.Code{Digest: "a", Since: noon, Source: "old\n"}
		}
		source.runs[i].Steps = []inspect.Step{{Call: &call}}
	}
	source.states[0].Attempts, source.states[0].FailingSince = 1, source.runs[0].Began
	page := get(t, s, objectPath).Body.String()
	wantTexts(t, page, `diff-del">old<`, `diff-add">new &lt; 1<`, "the code of sync changed, at <time datetime=\"2030-01-02T03:04:06Z\"",
		"Failed 2 times in a row, since <time datetime=\"2030-01-02T03:04:07Z\"", "!Nothing that the hook receives")
	for _, run := range source.runs {
		run.Steps[0].Call.Code = nil
	}
	wantTexts(t, get(t, s, objectPath).Body.String(), "Nothing that the hook receives. Setpoint cannot see the hook’s code: it, or something that it depends on, behaves differently.")
	for _, run := range source.runs {
		run.Steps[0].Call.Code = &inspect.Code{Digest: "a", Since: noon}
	}
	wantTexts(t, get(t, s, objectPath).Body.String(), "Nor has the code that Setpoint sees changed")
}

// What an object page says about the last run does not depend on the runs that it lists.
func TestFilteredRunsKeepTheFailure(t *testing.T) {
	k, s, source := newIncidentServer(t)
	review := reviewRun(4, "a", inspect.ReviewAllowed, inspect.Review{})
	review.Object, review.Controller = source.runs[0].Object, source.runs[0].Controller
	source.runs = append([]inspect.Run{review}, source.runs...)
	link := `href="` + objectPath + `/runs/3?in=setpoint">Request</a>`
	for _, query := range []string{"", "?outcome=synced", "?outcome=postponed"} {
		wantTexts(t, get(t, s, objectPath+query).Body.String(), link)
	}
	k.object, source.states = nil, nil
	for _, query := range []string{"", "?outcome=synced", "?outcome=postponed"} {
		if w := get(t, s, objectPath+query); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "history is kept in memory only") {
			t.Errorf("%s of a deleted object has status %d", query, w.Code)
		}
	}
	source.runs = nil
	if w := get(t, s, objectPath); w.Code != http.StatusNotFound {
		t.Errorf("an object without history has status %d", w.Code)
	}
}

// TestIncidentAfterChangedLogic compares what responses say about the version of the logic.
func TestIncidentAfterChangedLogic(t *testing.T) {
	const elsewhere = "this is the version of other objects now"
	for name, c := range map[string]struct {
		good, bad, now string
		want, not      []string
	}{
		"both responses":      {`{"logicVersion":"a1"}`, `{"logicVersion":"b2"}`, "c3", []string{"logicVersion in responses", "<code>a1</code>", "<code>b2</code>"}, []string{elsewhere, "c3"}},
		"a version is new":    {`{"children":[]}`, `{"logicVersion":"b2"}`, "", []string{"<del><code>none</code></del>", "<code>b2</code>"}, nil},
		"without response":    {`{"logicVersion":"a1"}`, "", "c3", []string{"<code>a1</code>", "<code>c3</code>", elsewhere}, nil},
		"markup":              {`{"logicVersion":"<b>a1"}`, `{"logicVersion":"b2"}`, "", []string{"&lt;b&gt;a1"}, []string{"<b>a1"}},
		"the same":            {`{"logicVersion":"a1"}`, `{"logicVersion":"a1"}`, "c3", nil, []string{"logicVersion in responses"}},
		"the same elsewhere":  {`{"logicVersion":"a1"}`, "", "a1", nil, []string{"logicVersion in responses"}},
		"unknown before":      {"", `{"logicVersion":"b2"}`, "b2", nil, []string{"logicVersion in responses"}},
		"a hidden response":   {`"hidden"`, `{"logicVersion":"b2"}`, "b2", nil, []string{"logicVersion in responses"}},
		"unknown at all ends": {`{"logicVersion":"a1"}`, "", "", nil, []string{"logicVersion in responses"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, s, source := newIncidentServer(t)
			source.runs[1].Steps[0].Call.Response, source.runs[2].Steps[0].Call.Response = json.RawMessage(c.bad), json.RawMessage(c.good)
			source.controllers[0].LogicVersion = c.now
			page := get(t, s, objectPath+"/runs/2/compare?in=setpoint&with=1").Body.String()
			checkInert(t, page)
			_, comparison, _ := strings.Cut(page, "Changed between")
			comparison, _, _ = strings.Cut(comparison, "<h3>")
			wantTexts(t, comparison, c.want...)
			for _, each := range c.not {
				if strings.Contains(comparison, each) {
					t.Errorf("the page has %q", each)
				}
			}
		})
	}
}

func TestOutputOfHooks(t *testing.T) {
	_, s, source := newIncidentServer(t)
	call := source.runs[2].Steps[0].Call
	call.Output, call.OutputMore = []string{"resize to 3", hostile}, 7
	source.runs[1].Steps[0].Call.OutputHidden = true
	page := get(t, s, objectPath+"/runs/1?in=setpoint").Body.String()
	checkInert(t, page)
	wantTexts(t, page, "Output", "2 lines, 7 more not kept", "resize to 3")
	wantTexts(t, get(t, s, objectPath+"/runs/2?in=setpoint").Body.String(), "What the hook prints is not shown, since the run has values of Secrets.")
}

// childrenSource is a process that manages objects by name.
type childrenSource struct {
	*fakeSource
	children map[string][]inspect.Child
	// calls counts calls.
	calls atomic.Int32
}

func (c *childrenSource) States(_ context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	c.calls.Add(1)
	family, is := c.children[ref.Name]
	if !is {
		return nil, nil
	}
	return []inspect.ObjectState{{Ref: ref, Controller: "webs", Process: "setpoint", State: inspect.StateSynced, ChildStates: family}}, nil
}

func newChild(group, kind, name string) inspect.Child {
	ref := object.Ref{Kind: object.Kind{Group: group, Version: "v1", Plural: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true}, Namespace: "shop", Name: name, UID: name}
	return inspect.Child{Ref: ref, Health: "Current"}
}

func newChildrenSource(families map[string][]inspect.Child) *childrenSource {
	c := teamsController()
	c.Kinds = []object.Kind{webKind()}
	return &childrenSource{fakeSource: &fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}, children: families}
}

func TestTreeSpansControllers(t *testing.T) {
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/apis/example.org/v1/namespaces/shop/webs/a"] = `{"metadata":{"name":"a","namespace":"shop","uid":"a"}}`
	var sets []string
	var deployments []inspect.Child
	for i := range 9 {
		deployments = append(deployments, newChild("apps", "Deployment", fmt.Sprintf("d%d", i)))
		sets = append(sets, fmt.Sprintf(`{"metadata":{"name":"r%[1]d","namespace":"shop","uid":"r%[1]d","ownerReferences":[{"uid":"d%[1]d"}]}}`, i))
	}
	a.responses["/apis/apps/v1/namespaces/shop/replicasets"] = `{"items":[` + strings.Join(sets, ",") + `]}`
	a.responses["/api/v1/namespaces/shop/pods"] = "forbidden"
	source := newChildrenSource(map[string][]inspect.Child{"a": {newChild("example.org", "Web", "b")}, "b": deployments})
	body := get(t, a.newServer(t, source), "/resources/webs.example.org/shop/a").Body.String()
	wantTexts(t, body, `href="/resources/webs.example.org/shop/b"`, `href="/resources/deployments.apps/shop/d8"`, `href="/resources/replicasets.apps/shop/r8"`,
		`Incomplete: forbidden: User &#34;ann&#34; cannot list resource &#34;things&#34; in API group &#34;&#34; in the namespace &#34;shop&#34;.`)
	if sets, pods := a.count("/replicasets?"), a.count("/pods?"); sets != 1 || pods != 1 {
		t.Errorf("listed replica sets %d times, and pods %d", sets, pods)
	}
}

func TestExports(t *testing.T) {
	_, s, source := newIncidentServer(t)
	page := get(t, s, objectPath+"/runs/1?in=setpoint").Body.String()
	wantTexts(t, page, "Export", objectPath+"/runs/1/file?in=setpoint", objectPath+"/runs/1/case?in=setpoint", "Values of Secrets are masked")
	w := get(t, s, objectPath+"/runs/1/file?in=setpoint")
	if !strings.Contains(w.Body.String(), `"outcome": "synced"`) || !json.Valid(w.Body.Bytes()) ||
		!strings.Contains(w.Header().Get("Content-Disposition"), "attachment; filename=a-1-") {
		t.Errorf("%v: %s", w.Header(), w.Body)
	}
	source.runs[2].Steps[0].Call = &inspect.Call{Name: "sync", Dropped: true}
	if page := get(t, s, objectPath+"/runs/1?in=setpoint").Body.String(); strings.Contains(page, "Test case") || !strings.Contains(page, "Run (JSON)") {
		t.Errorf("the page is %s", page)
	}
}

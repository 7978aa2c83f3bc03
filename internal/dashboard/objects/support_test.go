package objects

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/templates"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// hostile is text in names, labels and responses.
const hostile = "<script>alert(1)</script>\" onmouseover=\"x\u202e\u0007"

var noon = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func webKind() object.Kind {
	return object.Kind{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true}
}

func podRef(name string) object.Ref {
	return object.Ref{Kind: object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: name}
}

// checkInert finds content that the policy would block or that an attacker could have injected.
func checkInert(t *testing.T, html string) {
	t.Helper()
	lower := strings.ToLower(html)
	for _, bad := range []string{" style=", "<style", "<script>", "onmouseover=\"x", "href=\"javascript:", " onclick=", "\u202e", "#zgotmplz", "<no value>"} {
		if at := strings.Index(lower, strings.ToLower(bad)); at >= 0 {
			t.Errorf("the page has %q: …%s…", bad, html[max(0, at-80):min(len(html), at+80)])
		}
	}
}

// wantTexts finds the texts that a page lacks, and those that it has although a ! is before them.
func wantTexts(t *testing.T, html string, texts ...string) {
	t.Helper()
	plain := strings.Join(strings.Fields(html), " ")
	for _, text := range texts {
		if never, is := strings.CutPrefix(text, "!"); strings.Contains(plain, never) == is {
			t.Errorf("the page is to have %q", text)
		}
	}
	if t.Failed() {
		t.Log(plain)
	}
}

// renderPage renders a page with its layout.
func renderPage(t *testing.T, name string, data any) string {
	t.Helper()
	site := newObjectRequest().Site
	all := site.Functions()
	maps.Copy(all, Functions())
	pages := must.Get(web.ParseTemplates(templates.Files, all)).In(t)
	var out bytes.Buffer
	must.Succeed(t, pages[name].ExecuteTemplate(&out, "layout", web.Page{Title: "T", URL: "/x", Data: data}))
	checkInert(t, out.String())
	return out.String()
}

// newObjectRequest returns a request of the owner to a dashboard of some processes.
func newObjectRequest(sources ...inspect.Source) *Request {
	now := func() time.Time { return noon }
	site := &web.Site{
		Processes: processes.New(func(context.Context) []inspect.Source { return sources }, nil, now),
		Log:       slog.New(slog.DiscardHandler), Now: now,
	}
	return New().Of(&web.Request{
		Site: site, R: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), API: &userclient.Client{},
		User: &userclient.User{OwnCredentials: true},
	})
}

// runSource is a process with runs.
type runSource struct {
	inspect.Source

	name    string
	process inspect.Process
	runs    []inspect.Run
	// children are those of objects by name.
	children map[string][]inspect.Child
	// reads is how many runs were read, calls how often States was called.
	reads int
	calls atomic.Int32
}

func (s *runSource) States(_ context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	s.calls.Add(1)
	children, is := s.children[ref.Name]
	if !is {
		return nil, nil
	}
	return []inspect.ObjectState{{Ref: ref, Controller: "webs", Process: "setpoint", State: inspect.StateSynced, ChildStates: children}}, nil
}

func (s *runSource) Name() string { return s.name }

func (s *runSource) Process(context.Context) (inspect.Process, error) { return s.process, nil }

func (*runSource) Controllers(context.Context) ([]inspect.Controller, error) { return nil, nil }

func (s *runSource) Run(_ context.Context, id uint64, _ bool) (inspect.Run, error) {
	s.reads++
	for _, run := range s.runs {
		if run.ID == id {
			return run, nil
		}
	}
	return inspect.Run{}, failure.ErrNotFound
}

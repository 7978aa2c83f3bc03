package dashboard

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A missing run is looked up once, not at each refresh.
func TestMissingRunsAreCached(t *testing.T) {
	after, stripped := newRun(9, "p"), newRun(7, "p")
	after.Steps[0].Call.Previous = 7
	stripped.Steps[0].Call.Request = nil
	for name, kept := range map[string][]inspect.Run{
		"both are gone": nil, "the earlier is gone": {after}, "the earlier was stripped": {after, stripped},
	} {
		t.Run(name, func(t *testing.T) {
			source := &countingSource{fakeSource: &fakeSource{name: "setpoint", runs: kept}}
			server := newServer(t, source)
			reads := func() int {
				source.reads = 0
				server.changesOf(t, "ann", after)
				return source.reads
			}
			if first, again := reads(), reads(); first == 0 || again != 0 {
				t.Errorf("read %d, then %d", first, again)
			}
		})
	}
}

// changesOf returns the changes of a run as a user sees them.
func (s *Server) changesOf(t *testing.T, reader string, run inspect.Run) []objectChange {
	t.Helper()
	api, err := s.Cluster.As(userclient.User{Name: reader})
	if err != nil {
		t.Fatal(err)
	}
	req := &request{&web.Request{Site: s.Site, R: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), API: api,
		Identity: &access.Identity{User: userclient.User{Name: reader, OwnCredentials: true}}}, s}
	return req.timelineEntries(webSubject("a", ""), []inspect.Run{run}, 10)[0].ObjectChanges
}

// The cache does not keep the token of a user after the session.
func TestCacheHoldsNoTokens(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	ann := userclient.User{Name: "ann", Token: "secret"}
	gone := make(chan struct{})
	func() {
		api, err := s.Cluster.As(ann)
		if err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(api, func(done chan struct{}) { close(done) }, gone)
		l := &runLoader{request: &request{&web.Request{Site: s.Site, API: api}, s}}
		l.objectChanges(webSubject("a", ""), inspect.Run{ID: 1})
	}()
	if len(s.changeCache.Keys()) != 1 {
		t.Fatal("nothing is kept")
	}
	s.Cluster.Drop(ann)
	for end := time.Now().Add(time.Minute); ; {
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatal("the token is kept")
		}
	}
}

func TestStoryPages(t *testing.T) {
	page := StoryPage{Version: "v1", Lanes: []string{"Users", "Setpoint"}, Stories: []Story{{
		Name: "sizes", Property: "Settles", Violation: "<it> never rests",
		Ways: []StoryWay{{Title: "Timeline", Steps: []StoryStep{
			{Number: 1, Lane: "Setpoint", Text: "Setpoint: create <Pod>.", Repeats: true, Changes: []StoryChange{{Object: "Pod a", What: "changed", Fields: []object.FieldChange{
				{Path: "spec.size", From: []byte("1"), To: []byte("2")},
			}}}, Objects: []StoryObject{{Name: "Pod a", YAML: "kind: Pod\n"}}},
			{Number: 2, Lane: "Users", Text: "A user edits."},
		}}},
	}}}
	var b bytes.Buffer
	if err := page.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<title>sizes · Setpoint</title>", "Settles: &lt;it&gt; never rests", `class="story-step story-lane-2"`, `class="story-step story-lane-1"`,
		"1. Setpoint: create &lt;Pod&gt;.", "These steps repeat for ever:", "<strong>changed</strong> Pod a", `<del dir="ltr">1</del>`, "kind: Pod", "--ground: light-dark(",
		"Nothing changes in the API server.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, other := range []string{"<script", "href=\"/", "src="} {
		if strings.Contains(b.String(), other) {
			t.Errorf("the page has %s", other)
		}
	}
}

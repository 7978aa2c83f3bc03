package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Relative times are refreshed at the same interval.
func TestStalePageIsRefreshed(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	r := fromOwner(s, httptest.NewRequest(http.MethodGet, "http://localhost/live", http.NoBody))
	for since, want := range map[time.Duration]int{0: 0, staleAfter: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		l := &eventStream{
			request: &request{&web.Request{Site: s.Site, W: w, R: r}, s}, out: http.NewResponseController(w),
			changed: make(chan struct{}, 1), sources: map[inspect.Source]context.CancelFunc{},
		}
		l.watchSources(ctx)
		l.lastChange = time.Now().Add(-since)
		l.poll(ctx)
		if len(l.changed) != want {
			t.Errorf("after %s the page got %d changes", since, len(l.changed))
		}
		cancel()
	}
}

// Changes before the stream opens are sent once.
func TestStreamStartsWithOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &fakeSource{name: "setpoint", revisions: make(chan uint64, 1)}
		busy.revisions <- 7
		s := newServer(t, &fakeSource{name: "quiet"}, busy)
		var err error
		if s.probe.cluster, err = userclient.New(&rest.Config{Host: "http://nowhere", Transport: noNetwork{}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*minRefreshInterval+time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/live", http.NoBody))
		if n := strings.Count(w.Body.String(), "event: change"); n != 1 {
			t.Errorf("%d change events:\n%s", n, w.Body)
		}
	})
}

// noNetwork is the transport of an API server that cannot be reached.
type noNetwork struct{}

func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no network")
}

func TestPageWatchesItsObject(t *testing.T) {
	p := web.Page{Watch: "pods", Namespace: "shop", Object: "a"}
	a := newFakeAPI(t, discoveryResponses())
	a.responses["/api/v1/namespaces/shop/pods"] = "forbidden"
	server := httptest.NewServer(a.newServer(t))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	callBody, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+web.LiveURL(&p), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(callBody)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for a.count("/pods?") == 0 && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	if a.count("/pods?fieldSelector=metadata.name%3Da&limit=1") != 1 {
		t.Errorf("requests: %q", a.requests)
	}
}

// countingSource counts how often full runs are read.
type countingSource struct {
	*fakeSource
	reads int
}

func (c *countingSource) Run(ctx context.Context, id uint64) (inspect.Run, error) {
	c.reads++
	return c.fakeSource.Run(ctx, id)
}

func TestTriggersAreCached(t *testing.T) {
	before, after := newRun(7, "p"), newRun(9, "p")
	before.Steps[0].Call.Request, after.Steps[0].Call.Request = []byte(`{"parent":{"kind":"Web","metadata":{"name":"a","uid":"u1"},"spec":{"a":1}}}`), []byte(`{"parent":{"kind":"Web","metadata":{"name":"a","uid":"u1"},"spec":{"a":2}}}`)
	after.Steps[0].Call.Previous, after.Causes = 7, []string{"the object changed"}
	source := &countingSource{fakeSource: &fakeSource{name: "setpoint", runs: []inspect.Run{after, before}}}
	server := newServer(t, source)
	look := func(reader string, run inspect.Run) int {
		source.reads = 0
		api, err := server.options.Cluster.As(userclient.User{Name: reader})
		if err != nil {
			t.Fatal(err)
		}
		req := &request{&web.Request{Site: server.Site, R: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), API: api,
			Identity: &access.Identity{User: userclient.User{Name: reader, OwnCredentials: true}}}, server}
		entries := req.timelineEntries(webSubject("a", ""), []inspect.Run{run}, 10)
		if len(entries[0].ObjectChanges) != 1 || entries[0].ObjectChanges[0].Fields[0].Path != "spec.a" {
			t.Errorf("%s sees %+v", reader, entries[0].ObjectChanges)
		}
		return source.reads
	}
	first, again, another := look("ann", after), look("ann", after), look("bob", after)
	if first != 2 || again != 0 || another != 2 {
		t.Errorf("read %d, then %d, for another %d", first, again, another)
	}
	recent := after
	recent.Began = noon.Add(-time.Second)
	source.runs[0] = recent
	look("ann", recent)
	if look("ann", recent) != 2 {
		t.Error("what may have been before the object was read is kept")
	}
}

package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

func TestPagesRestForAsLongAsTheyTake(t *testing.T) {
	var p paces
	if got := p.rest("ann", "/a"); got != liveEvery {
		t.Errorf("a page of which nothing is known rests for %s", got)
	}
	for took, want := range map[time.Duration]time.Duration{
		time.Millisecond: liveEvery, 3 * time.Second: 15 * time.Second, time.Hour: maxRest,
	} {
		p.begin("ann", "/a")()
		p.byVisitor["ann"]["/a"].took = took
		if got := p.rest("ann", "/a"); got != want {
			t.Errorf("what took %s rests for %s, not %s", took, got, want)
		}
	}
	p.byVisitor["ann"]["/a"].took = 0
	here, there := p.begin("ann", "/a"), p.begin("ann", "/a")
	here()
	p.byVisitor["ann"]["/a"].since = time.Now().Add(-2 * time.Second)
	if got := p.rest("ann", "/a"); got < 10*time.Second {
		t.Errorf("what is being made for 2s rests for %s", got)
	}
	there()
	if got := p.rest("bob", "/a"); got != liveEvery {
		t.Errorf("another's page rests for %s", got)
	}
}

// Whoever makes up pages takes little, and from nobody else.
func TestPacesAreFew(t *testing.T) {
	var p paces
	p.begin("bob", "/b")()
	p.byVisitor["bob"]["/b"].took = time.Second
	for i := range 3 * maxPaces {
		p.begin("ann", fmt.Sprint("/", i))()
	}
	p.begin("ann", strings.Repeat("x", maxPacedPath+1))()
	if n := len(p.byVisitor["ann"]); n != maxPaces || p.byVisitor["ann"][strings.Repeat("x", maxPacedPath+1)] != nil {
		t.Errorf("%d of ann's are kept", n)
	}
	if got := p.rest("bob", "/b"); got != 5*time.Second {
		t.Errorf("bob's page rests for %s", got)
	}
	for i := range 2 * maxPacedVisitors {
		p.begin(fmt.Sprint(i), "/")()
	}
	if n := len(p.byVisitor); n != maxPacedVisitors {
		t.Errorf("%d visitors are known", n)
	}
}

// Ages move on under the same pace as all else.
func TestWhatIsOldIsAChange(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	r := httptest.NewRequest(http.MethodGet, "http://localhost/live", http.NoBody)
	for since, want := range map[time.Duration]int{0: 0, liveAges: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		l := &live{
			visit: &visit{Server: s, w: w, r: r}, out: http.NewResponseController(w),
			changed: make(chan struct{}, 1), followed: map[inspect.Source]context.CancelFunc{},
		}
		l.follow(ctx)
		l.told = time.Now().Add(-since)
		l.look(ctx)
		if len(l.changed) != want {
			t.Errorf("after %s the page is told of %d changes", since, len(l.changed))
		}
		cancel()
	}
}

// What happened between a page and its stream is told at once, and once.
func TestStreamsBeginWithOneChange(t *testing.T) {
	busy := &still{name: "setpoint", revisions: make(chan uint64, 1)}
	busy.revisions <- 7
	s := serve(t, &still{name: "quiet"}, busy)
	ctx, cancel := context.WithTimeout(t.Context(), 4*liveEvery)
	defer cancel()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/live?page=%2F", http.NoBody))
	if n := strings.Count(w.Body.String(), "event: change"); n != 1 {
		t.Errorf("told %d times:\n%s", n, w.Body)
	}
}

// slowly answers after a while.
type slowly struct{ *still }

func (s slowly) Process(ctx context.Context) (inspect.Process, error) {
	pause(ctx, 300*time.Millisecond)
	return s.still.Process(ctx)
}

func TestWhatAPageTakesIsKnown(t *testing.T) {
	s := serve(t, slowly{&still{name: "setpoint"}})
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
	r.Header.Set("X-Live", "yes")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if !strings.Contains(get(t, s, "/").Body.String(), `data-live="/live?page=%2F"`) {
		t.Error("the page does not say which it is")
	}
	v, err := s.gate.Visitor(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.paces.rest(v.User.Name, "/"); got < liveRests*300*time.Millisecond {
		t.Errorf("it rests for %s", got)
	}
}

func TestAPageWatchesWhatItIsAbout(t *testing.T) {
	p := page{Watch: "pods", Namespace: "shop", Object: "a"}
	if got, want := liveURL("/x y", &p), "/live?"+(url.Values{"page": {"/x y"}, "watch": {"pods"}, "namespace": {"shop"}, "name": {"a"}}).Encode(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	a := newAnswers(t, someKinds())
	a.byPath["/api/v1/namespaces/shop/pods"] = "forbidden"
	server := httptest.NewServer(a.window(t))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+liveURL("/x", &p), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for a.times("/pods?") == 0 && pause(ctx, 10*time.Millisecond) {
	}
	if a.times("/pods?fieldSelector=metadata.name%3Da&limit=1") != 1 {
		t.Errorf("asked %q", a.asked)
	}
}

// counted counts how often runs are read in full.
type counted struct {
	*still
	reads int
}

func (c *counted) Run(ctx context.Context, id uint64) (inspect.Run, error) {
	c.reads++
	return c.still.Run(ctx, id)
}

func TestRunsAreExplainedOnce(t *testing.T) {
	before, after := ranRun(7, "p"), ranRun(9, "p")
	before.Steps[0].Ask.Request, after.Steps[0].Ask.Request = []byte(`{"parent":{"kind":"Web","metadata":{"name":"a","uid":"u1"},"spec":{"a":1}}}`), []byte(`{"parent":{"kind":"Web","metadata":{"name":"a","uid":"u1"},"spec":{"a":2}}}`)
	after.Steps[0].Ask.Previous, after.Causes = 7, []string{"the object changed"}
	source := &counted{still: &still{name: "setpoint", runs: []inspect.Run{after, before}}}
	server := serve(t, source)
	look := func(reader string, run inspect.Run) int {
		source.reads = 0
		api, err := server.options.Cluster.As(asuser.User{Name: reader})
		if err != nil {
			t.Fatal(err)
		}
		v := &visit{
			Server: server, r: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), api: api,
			visitor: &access.Visitor{User: asuser.User{Name: reader, Own: true}},
		}
		entries := v.entries(webSubject("a", ""), []inspect.Run{run}, 10)
		if len(entries[0].Whys) != 1 || entries[0].Whys[0].Fields[0].Path != "spec.a" {
			t.Errorf("%s sees %+v", reader, entries[0].Whys)
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

package dashboard

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
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
	api, err := s.options.Cluster.As(userclient.User{Name: reader})
	if err != nil {
		t.Fatal(err)
	}
	req := &request{
		Server: s, r: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), api: api,
		identity: &access.Identity{User: userclient.User{Name: reader, OwnCredentials: true}},
	}
	return req.timelineEntries(webSubject("a", ""), []inspect.Run{run}, 10)[0].ObjectChanges
}

// The cache does not keep the token of a user after the session.
func TestCacheHoldsNoTokens(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	ann := userclient.User{Name: "ann", Token: "secret"}
	gone := make(chan struct{})
	func() {
		api, err := s.options.Cluster.As(ann)
		if err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(api, func(done chan struct{}) { close(done) }, gone)
		l := &runLoader{request: &request{Server: s, api: api}}
		l.objectChanges(webSubject("a", ""), inspect.Run{ID: 1})
	}()
	if len(s.changeCache.Keys()) != 1 {
		t.Fatal("nothing is kept")
	}
	s.options.Cluster.Drop(ann)
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

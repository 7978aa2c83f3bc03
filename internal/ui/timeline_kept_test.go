package ui

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// That a run is gone is found out once, not at each refresh.
func TestWhatIsGoneIsNotLookedForAgain(t *testing.T) {
	after, stripped := ranRun(9, "p"), ranRun(7, "p")
	after.Steps[0].Ask.Previous = 7
	stripped.Steps[0].Ask.Request = nil
	for name, kept := range map[string][]inspect.Run{
		"both are gone": nil, "the earlier is gone": {after}, "the earlier was stripped": {after, stripped},
	} {
		t.Run(name, func(t *testing.T) {
			source := &counted{still: &still{name: "setpoint", runs: kept}}
			server := serve(t, source)
			reads := func() int {
				source.reads = 0
				server.whysOf(t, "ann", after)
				return source.reads
			}
			if first, again := reads(), reads(); first == 0 || again != 0 {
				t.Errorf("read %d, then %d", first, again)
			}
		})
	}
}

// whysOf are what changed before a run, as a reader finds it.
func (s *Server) whysOf(t *testing.T, reader string, run inspect.Run) []why {
	t.Helper()
	api, err := s.options.Cluster.As(asuser.User{Name: reader})
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{
		Server: s, r: httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody), api: api,
		visitor: &access.Visitor{User: asuser.User{Name: reader, Own: true}},
	}
	return v.entries(webSubject("a", ""), []inspect.Run{run}, 10)[0].Whys
}

// Nothing that was found for somebody keeps their token when the session has ended.
func TestWhatWasFoundOutlivesNoSession(t *testing.T) {
	s := serve(t, &still{name: "setpoint"})
	ann := asuser.User{Name: "ann", Token: "secret"}
	gone := make(chan struct{})
	func() {
		api, err := s.options.Cluster.As(ann)
		if err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(api, func(done chan struct{}) { close(done) }, gone)
		l := &lookup{visit: &visit{Server: s, api: api}}
		l.whys(webSubject("a", ""), inspect.Run{ID: 1})
	}()
	if len(s.kept.byRun) != 1 {
		t.Fatal("nothing is kept")
	}
	s.options.Cluster.Forget(ann)
	for end := time.Now().Add(10 * time.Second); ; {
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

func TestWhatIsOldIsForgotten(t *testing.T) {
	var k keptWhys
	for i := range uint64(100) {
		k.put(whysKey{id: i}, nil, noon)
	}
	k.put(whysKey{id: 100}, nil, noon.Add(keepFor/2))
	k.put(whysKey{id: 101}, nil, noon.Add(keepFor+time.Second))
	if len(k.byRun) != 2 || k.bytes != 2*keptWhy {
		t.Errorf("%d are kept, %d bytes", len(k.byRun), k.bytes)
	}
}

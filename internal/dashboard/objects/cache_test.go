package objects

import (
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// newCluster returns an API server that does not respond.
func newCluster(t *testing.T) *userclient.Cluster {
	t.Helper()
	return must.Get(userclient.NewCluster(&rest.Config{Host: "http://127.0.0.1:1"})).In(t)
}

// requestOf returns the request as that of a reader.
func requestOf(t *testing.T, req *Request, cluster *userclient.Cluster, reader string) *Request {
	t.Helper()
	api := must.Get(cluster.Client(userclient.User{Name: reader})).In(t)
	return req.pages.Of(&web.Request{
		Site: req.Site, R: req.R, API: api, User: &userclient.User{Name: reader, OwnCredentials: true},
	})
}

func TestTriggersAreCached(t *testing.T) {
	before, after := newRun(7, "p"), newRun(9, "p")
	before.Steps[0].Call.Request, after.Steps[0].Call.Request = []byte(`{"parent":{"kind":"Web","metadata":{"name":"a","uid":"u1"},"spec":{"a":1}}}`), []byte(`{"parent":{"kind":"Web","metadata":{"name":"a","uid":"u1"},"spec":{"a":2}}}`)
	after.Steps[0].Call.Previous, after.Causes = 7, []string{"the object changed"}
	source := &runSource{name: "setpoint", runs: []inspect.Run{after, before}}
	req, cluster := newObjectRequest(source), newCluster(t)
	look := func(reader string, run inspect.Run) int {
		source.reads = 0
		entries := requestOf(t, req, cluster, reader).timelineEntries(webSubject("a", ""), []inspect.Run{run}, 10)
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

// A missing run is looked up once, not at each refresh.
func TestMissingRunsAreCached(t *testing.T) {
	after, stripped := newRun(9, "p"), newRun(7, "p")
	after.Steps[0].Call.Previous = 7
	stripped.Steps[0].Call.Request = nil
	for name, kept := range map[string][]inspect.Run{
		"both are gone": nil, "the earlier is gone": {after}, "the earlier was stripped": {after, stripped},
	} {
		t.Run(name, func(t *testing.T) {
			source := &runSource{name: "setpoint", runs: kept}
			req, cluster := newObjectRequest(source), newCluster(t)
			reads := func() int {
				source.reads = 0
				requestOf(t, req, cluster, "ann").timelineEntries(webSubject("a", ""), []inspect.Run{after}, 10)
				return source.reads
			}
			if first, again := reads(), reads(); first == 0 || again != 0 {
				t.Errorf("read %d, then %d", first, again)
			}
		})
	}
}

// The cache does not keep the token of a user after the session.
func TestCacheHoldsNoTokens(t *testing.T) {
	req, cluster := newObjectRequest(&runSource{name: "setpoint"}), newCluster(t)
	ann := userclient.User{Name: "ann", Token: "secret"}
	gone := make(chan struct{})
	func() {
		api := must.Get(cluster.Client(ann)).In(t)
		runtime.AddCleanup(api, func(done chan struct{}) { close(done) }, gone)
		l := &Loader{Request: req.pages.Of(&web.Request{Site: req.Site, API: api})}
		l.objectChanges(webSubject("a", ""), inspect.Run{ID: 1})
	}()
	if len(req.pages.changes.Keys()) != 1 {
		t.Fatal("nothing is kept")
	}
	cluster.Drop(ann)
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

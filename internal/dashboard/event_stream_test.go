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

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Relative times are refreshed at the same interval.
func TestStalePageIsRefreshed(t *testing.T) {
	s := newServer(t, &fakeSource{name: "setpoint"})
	r := fromOwner(s, httptest.NewRequest(http.MethodGet, "http://localhost/live", http.NoBody))
	for since, want := range map[time.Duration]int{0: 0, staleAfter: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		l := &eventStream{
			request: &request{&web.Request{Site: s.Site, W: w, R: r}, &s.pages}, out: http.NewResponseController(w),
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
		s.Cluster = must.Get(userclient.NewCluster(&rest.Config{Host: "http://nowhere", Transport: noNetwork{}})).In(t)
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
	callBody := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, server.URL+web.LiveURL(&p), http.NoBody)).In(t)
	response, err := http.DefaultClient.Do(callBody)
	must.Succeed(t, err)
	defer response.Body.Close()
	for a.count("/pods?") == 0 && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	if a.count("/pods?fieldSelector=metadata.name%3Da&limit=1") != 1 {
		t.Errorf("requests: %q", a.requests)
	}
}

package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// newProxyServer returns a function that loads pages as user ann behind a proxy.
func newProxyServer(t *testing.T, api string, sources ...inspect.Source) func(path string) *httptest.ResponseRecorder {
	t.Helper()
	s := serverOf(t, api, Options{Access: access.Options{Headers: access.Headers{User: "X-User"}}}, sources...)
	return func(path string) *httptest.ResponseRecorder {
		return send(s, http.MethodGet, path, http.NoBody, "X-User", "ann")
	}
}

// newReviewAPI returns the address of an API server that allows some requests.
func newReviewAPI(t *testing.T, allows func(*authorization.ResourceAttributes) bool) string {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reviewAccess(w, r, allows) }))
	t.Cleanup(api.Close)
	return api.URL
}

// reviewAccess responds to an access review.
func reviewAccess(w http.ResponseWriter, r *http.Request, allows func(*authorization.ResourceAttributes) bool) {
	var review authorization.SelfSubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	review.Status.Allowed = review.Spec.ResourceAttributes != nil && allows(review.Spec.ResourceAttributes)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// manyControllers is a process with many controllers of different kinds.
func manyControllers() *fakeSource {
	process := &fakeSource{name: "setpoint"}
	for i := range 30 {
		c := teamsController()
		c.Name += fmt.Sprint(i)
		c.Kinds[0].Plural += fmt.Sprint(i)
		process.controllers = append(process.controllers, c)
	}
	return process
}

// An outage is not reported as missing permissions or missing objects: the page reloads
// automatically.
func TestOutageIsNotForbidden(t *testing.T) {
	load := newProxyServer(t, "http://127.0.0.1:1", &fakeSource{name: "setpoint", controllers: []inspect.Controller{teamsController()}})
	for _, path := range []string{"/", "/resources", teamsPage, "/resources/pods/shop/a"} {
		w := load(path)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Refresh") == "" || !strings.Contains(w.Body.String(), "API server unreachable") {
			t.Errorf("%s: %d %v\n%s", path, w.Code, w.Header(), w.Body)
		}
	}
}

func TestOutageDelaysOnce(t *testing.T) {
	var reviews atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reviews.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer api.Close()
	if w := newProxyServer(t, api.URL, manyControllers())("/"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d:\n%s", w.Code, w.Body)
	}
	if n := reviews.Load(); n > userclient.MaxParallel {
		t.Errorf("%d requests although the server is down", n)
	}
}

func TestAccessReviewsRunInParallel(t *testing.T) {
	var waiting atomic.Int32
	several := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if waiting.Add(1) == 2 {
			close(several)
		}
		select {
		case <-several:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	}))
	defer api.Close()
	if w := newProxyServer(t, api.URL, manyControllers())("/"); w.Code != http.StatusOK || strings.Count(w.Body.String(), `<a class="strong"`) != 30 {
		t.Errorf("%d:\n%s", w.Code, w.Body)
	}
}

// Who may read all namespaces needs one access review for them. Others need one each, and may read
// no other namespace.
func TestCanReadReviewsAllNamespacesFirst(t *testing.T) {
	for allowed, want := range map[string]struct{ readable, reviews int }{"": {20, 1}, "n7": {1, 21}, "none": {0, 21}} {
		var reviews atomic.Int32
		api := newReviewAPI(t, func(of *authorization.ResourceAttributes) bool {
			reviews.Add(1)
			return of.Verb == "get" && of.Namespace == allowed
		})
		req := newTestRequest(t, "/")
		req.User = &userclient.User{Name: "ann"}
		req.API = must.Get(serverOf(t, api, Options{}).Cluster.Client(*req.User)).In(t)
		readable := 0
		for i := range 20 {
			if req.CanRead(webKind(), fmt.Sprint("n", i)) {
				readable++
			}
		}
		if readable != want.readable || int(reviews.Load()) != want.reviews {
			t.Errorf("allowed in %q: %d readable after %d reviews, want %v", allowed, readable, reviews.Load(), want)
		}
	}
}

func TestWritesAreLogged(t *testing.T) {
	var log bytes.Buffer
	l := writeLog{slog.New(slog.NewTextHandler(&log, nil))}
	ingress := object.Ref{Kind: object.Kind{Group: "networking.k8s.io", Plural: "ingresses", Kind: "Ingress"}, Namespace: "shop", Name: "a"}
	secret := object.Ref{Kind: object.Kind{Plural: "secrets", Kind: "Secret"}, Namespace: "shop", Name: "a"}
	refusal := errors.New(`Secret "a" is invalid: data[pass]: Invalid value: "hunt\"er2": no, nor "hunter2`)
	l.log("ann", "update", ingress, nil, time.Second)
	l.log("ann", "update", secret, refusal, time.Second)
	l.log("ann", "update", ingress, errors.New("quoting \"hunter3\" and "+strings.Repeat("ä", 4000)), time.Second)
	got := log.String()
	if !strings.Contains(got, "resource=ingresses.networking.k8s.io namespace=shop name=a") || !strings.Contains(got, "resource=secrets") {
		t.Errorf("resource not logged: %s", got)
	}
	if strings.Contains(got, "er2") || !strings.Contains(got, "hunter3") || len(got) > 2000 {
		t.Errorf("error logged as: %s", got)
	}
}

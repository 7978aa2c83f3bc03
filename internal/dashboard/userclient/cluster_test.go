package userclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Requests to a real API server are tested with the control plane. These tests cover
// unreachable, slow and inconsistent servers.

var guitars = object.Kind{Group: "kool.example.org", Version: "v1", Plural: "guitars", Kind: "Guitar", Namespaced: true}

// fakeAPI returns fixed responses and logs requests.
type fakeAPI struct {
	*httptest.Server
	mu        sync.Mutex
	log       []string
	responses map[string]string
	code      int
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{responses: map[string]string{
		"/api":  `{"items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["list"],"shortNames":["po"]}]}]}]}`,
		"/apis": `{"items":[]}`,
	}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, strings.TrimSpace(fmt.Sprintf("%s %s as %s %s", r.Method, r.URL.Path, r.Header.Get("Impersonate-User"), r.Header.Get("Authorization"))))
	w.Header().Set("Content-Type", "application/json")
	response, known := f.responses[r.URL.Path]
	if f.code != 0 || !known {
		w.WriteHeader(max(f.code, http.StatusNotFound))
	}
	_, _ = w.Write([]byte(response))
}

func (f *fakeAPI) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeAPI) requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log)
}

func connect(t *testing.T, config *rest.Config) *userclient.Cluster {
	t.Helper()
	return must.Get(userclient.NewCluster(config)).In(t)
}

func as(t *testing.T, c *userclient.Cluster, u userclient.User) *userclient.Client {
	t.Helper()
	return must.Get(c.Client(u)).In(t)
}

func TestRequestsUseTheUsersCredentials(t *testing.T) {
	f := newFakeAPI(t)
	c := connect(t, &rest.Config{Host: f.URL, BearerToken: "own"})
	f.responses["/apis/kool.example.org/v1/namespaces/shop/guitars/a"] = `{}`
	for _, test := range []struct {
		user userclient.User
		want string
	}{
		{userclient.User{Name: "dev", OwnCredentials: true}, "as  Bearer own"},
		{userclient.User{Name: "ann", Token: "anns"}, "as  Bearer anns"},
		{userclient.User{Name: "ann"}, "as ann Bearer own"},
	} {
		f.update(func() { f.log = nil })
		must.Get(as(t, c, test.user).Get(t.Context(), guitars, "shop", "a")).In(t)
		if want := "GET /apis/kool.example.org/v1/namespaces/shop/guitars/a " + test.want; f.log[0] != want {
			t.Errorf("%+v: request %s, not %s", test.user, f.log[0], want)
		}
	}
}

func TestClientCache(t *testing.T) {
	c := connect(t, &rest.Config{Host: "http://127.0.0.1:1"})
	ann := as(t, c, userclient.User{Name: "ann", Groups: []string{"a"}})
	if as(t, c, userclient.User{Name: "ann", Groups: []string{"a"}}) != ann {
		t.Error("the client of a user is made twice")
	}
	for _, other := range []userclient.User{
		{Name: "ann"}, {Name: "ann", Groups: []string{"a", "b"}}, {Name: "ann", Groups: []string{"a"}, Token: "x"},
		{Name: "ann", Groups: []string{"a"}, OwnCredentials: true},
	} {
		if as(t, c, other) == ann {
			t.Errorf("%+v has the client of another", other)
		}
	}
	for i := range 300 {
		as(t, c, userclient.User{Name: fmt.Sprint(i)})
	}
	if as(t, c, userclient.User{Name: "ann", Groups: []string{"a"}}) == ann {
		t.Error("clients are kept for ever")
	}
}

func TestUnreachable(t *testing.T) {
	c := connect(t, &rest.Config{Host: "http://127.0.0.1:1"})
	client := as(t, c, userclient.User{Name: "dev", OwnCredentials: true})
	ctx := t.Context()
	_, kind := client.FindKind(ctx, "pods")
	_, get := client.Get(ctx, guitars, "shop", "a")
	_, table := client.Table(ctx, guitars, "", metav1.ListOptions{})
	_, create := client.Create(ctx, guitars, "shop", []byte(`{}`), userclient.WriteOptions{})
	_, verify := c.Verify(ctx, "token")
	_, _, schema := client.Schema(ctx, guitars)
	for what, err := range map[string]error{"kind": kind, "get": get, "table": table, "create": create, "verify": verify, "schema": schema} {
		if !errors.Is(err, userclient.ErrUnreachable) || errors.Is(err, failure.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if allowed, err := client.CanI(ctx, "get", guitars, "shop", "a"); allowed || !errors.Is(err, userclient.ErrUnreachable) {
		t.Errorf("unknown permission: %v, %v", allowed, err)
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(stop)
	client := as(t, connect(t, &rest.Config{Host: server.URL}), userclient.User{OwnCredentials: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := client.Get(ctx, guitars, "shop", "a"); !errors.Is(err, userclient.ErrUnreachable) {
		t.Errorf("get: %v", err)
	}
	// A canceled request does not report an unreachable server.
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := client.Get(ctx, guitars, "shop", "a"); !errors.Is(err, context.Canceled) || errors.Is(err, userclient.ErrUnreachable) {
		t.Errorf("get: %v", err)
	}
	// A canceled caller does not wait for a shared request.
	if _, err := client.FindKind(ctx, "pods"); !errors.Is(err, context.Canceled) {
		t.Errorf("kind: %v", err)
	}
}

func TestKindsDuringOutage(t *testing.T) {
	f := newFakeAPI(t)
	client := as(t, connect(t, &rest.Config{Host: f.URL}), userclient.User{OwnCredentials: true})
	f.update(func() { f.code = http.StatusServiceUnavailable })
	if _, err := client.FindKind(t.Context(), "pods"); !errors.Is(err, userclient.ErrUnreachable) {
		t.Errorf("at first: %v", err)
	}
	f.update(func() { f.code = 0 })
	must.Get(client.FindKind(t.Context(), "po")).In(t) // It is back.
	requests := f.requests()
	for range 100 {
		must.Get(client.FindKind(t.Context(), "pods")).In(t)
	}
	if f.requests() != requests {
		t.Error("known kinds are fetched again")
	}
	f.update(func() { f.code = http.StatusServiceUnavailable })
	must.Get(client.FindKind(t.Context(), "pods")).In(t) // A known kind is not forgotten.
}

func TestConcurrentCallsShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, client := discoveryClient(t)
		transport.takes = time.Millisecond // Until then, all calls have begun.
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := client.FindKind(t.Context(), "pods"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := transport.requests.Load(); n != 1 {
			t.Errorf("%d discoveries for 50 calls", n)
		}
	})
}

func TestAccessReviewsAreCached(t *testing.T) {
	f := newFakeAPI(t)
	const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	client := as(t, connect(t, &rest.Config{Host: f.URL}), userclient.User{Name: "ann"})
	if allowed, err := client.CanI(t.Context(), "get", guitars, "shop", "a"); allowed || err == nil {
		t.Errorf("an error says: %v, %v", allowed, err)
	}
	f.update(func() { f.responses[path] = `{"status":{"allowed":true}}` })
	for range 3 {
		if allowed, err := client.CanI(t.Context(), "get", guitars, "shop", "a"); !allowed || err != nil {
			t.Errorf("it is not allowed: %v", err)
		}
	}
	if f.requests() != 2 {
		t.Errorf("%d requests", f.requests())
	}
	f.update(func() { f.responses[path] = `{"status":{"allowed":false}}` })
	if allowed, err := client.CanI(t.Context(), "get", guitars, "shop", "b"); allowed || err != nil {
		t.Errorf("what is allowed of one is allowed of another: %v", err)
	}
}

func TestInvalidPathSegments(t *testing.T) {
	f := newFakeAPI(t)
	client := as(t, connect(t, &rest.Config{Host: f.URL}), userclient.User{OwnCredentials: true})
	for _, at := range []struct {
		kind            object.Kind
		namespace, name string
	}{
		{guitars, "shop", "../../pods"}, {guitars, "..", "a"}, {guitars, "a/b", "c"}, {guitars, "shop", "."},
		{object.Kind{Version: "v1", Plural: "pods/../secrets", Namespaced: true}, "shop", "a"},
		{object.Kind{Group: "..", Version: "v1", Plural: "pods"}, "", "a"}, {object.Kind{}, "", ""},
	} {
		if _, err := client.Get(t.Context(), at.kind, at.namespace, at.name); !errors.Is(err, failure.ErrNotFound) {
			t.Errorf("%+v: %v", at, err)
		}
	}
	if f.requests() != 0 {
		t.Errorf("requests: %v", f.log)
	}
}

func TestWatchReconnects(t *testing.T) {
	var lists, watches atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			if lists.Add(1) == 2 { // It has just started, and knows nothing yet.
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"7"}}`))
			return
		}
		if watches.Add(1) == 1 {
			return
		}
		_, _ = w.Write([]byte(`{"type":"BOOKMARK","object":{}}{"type":"MODIFIED","object":{}}{"type":"ERROR","object":{"code":410}}`))
	}))
	defer server.Close()
	client := as(t, connect(t, &rest.Config{Host: server.URL}), userclient.User{OwnCredentials: true})
	ctx, cancel := context.WithCancel(t.Context())
	changes := 0
	err := client.Watch(ctx, guitars, "", "", func() {
		changes++
		if changes == 3 { // The watch started, restarted, and delivered a change.
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	client = as(t, connect(t, &rest.Config{Host: nothing.URL}), userclient.User{OwnCredentials: true})
	if err := client.Watch(t.Context(), guitars, "", "", func() {}); !errors.Is(err, failure.ErrNotFound) {
		t.Errorf("a kind that is not served: %v", err)
	}
}

func TestDescribeError(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))
	denied.ErrStatus.Message = `admission webhook "policy.example.org" denied the request: images come from example.com`
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("something else"), "something else []"},
		{fmt.Errorf("create: %w", denied), `admission webhook "policy.example.org" denied the request: images come from example.com []`},
		{statusOf(`{"message":"x is invalid: lots","code":422,"details":{"causes":[{"field":"<nil>","message":"Invalid value: {\"a\":\"b: c\"}: a and b do not agree"},{"field":".spec","message":"Required value"}]}}`),
			"x is invalid [{ a and b do not agree} {spec Required value}]"},
		{statusOf(`{"message":"x is invalid: y","code":422,"details":{"causes":[{"field":"spec.a","message":"Invalid value: \"a: \\\"b\\\": c\": spec.a in body should match '^x$'"}]}}`),
			"x is invalid [{spec.a should match '^x$'}]"},
		{statusOf(`{"message":"x is invalid: y","code":422,"details":{"causes":[{"field":"spec.b","message":"one"},{"field":"spec.a","message":"two"},{"field":"spec.b","message":"three"}]}}`),
			"x is invalid [{spec.a two} {spec.b one} {spec.b three}]"},
	} {
		title, fields := userclient.DescribeError(test.err)
		if got := fmt.Sprintf("%s %v", title, fields); got != test.want {
			t.Errorf("got  %s\n\twant %s", got, test.want)
		}
	}
}

func TestMissingPermission(t *testing.T) {
	for message, want := range map[string]string{
		`guitars.kool.example.org is forbidden: User "rita" cannot create resource "guitars" in API group "kool.example.org" in the namespace "shop"`: `User "rita" cannot create resource "guitars" in API group "kool.example.org" in the namespace "shop"` + "\n" +
			"kubectl create role guitars-create --verb=create --resource=guitars.kool.example.org -n shop\n" +
			"kubectl create rolebinding guitars-create --role=guitars-create --user=rita -n shop",
		`pods is forbidden: User "system:serviceaccount:shop:bot" cannot list resource "pods" in API group "" at the cluster scope: why not`: `User "system:serviceaccount:shop:bot" cannot list resource "pods" in API group "" at the cluster scope` + "\n" +
			"kubectl create clusterrole pods-list --verb=list --resource=pods\n" +
			"kubectl create clusterrolebinding pods-list --clusterrole=pods-list --serviceaccount=shop:bot",
		`User "a'; rm -rf /" cannot patch resource "guitars/status" in API group "kool.example.org" in the namespace "shop"`: `User "a'; rm -rf /" cannot patch resource "guitars/status" in API group "kool.example.org" in the namespace "shop"` + "\n" +
			"kubectl create role guitars-patch --verb=patch --resource=guitars.kool.example.org/status -n shop\n" +
			`kubectl create rolebinding guitars-patch --role=guitars-patch --user='a'\''; rm -rf /' -n shop`,
		`admission webhook "x" denied the request`: "nothing is missing",
	} {
		got := "nothing is missing"
		if right, missing := userclient.MissingPermission(fmt.Errorf("create: %w", apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(message)))); missing {
			got = right.Missing() + "\n" + strings.Join(right.Commands(), "\n")
		}
		if got != want {
			t.Errorf("%s\n\tgot  %s\n\twant %s", message, got, want)
		}
	}
	if _, missing := userclient.MissingPermission(errors.New("something else")); missing {
		t.Error("something else is a missing right")
	}
}

func statusOf(text string) error {
	var err apierrors.StatusError
	if json.Unmarshal([]byte(text), &err.ErrStatus) != nil {
		return errors.New("the test is wrong")
	}
	return &err
}

func TestMissingSchemas(t *testing.T) {
	api := newFakeAPI(t)
	api.update(func() {
		api.responses["/openapi/v3"] = `{"paths":{"apis/kool.example.org/v1":{"serverRelativeURL":"/openapi/v3/guitars"}}}`
		api.responses["/openapi/v3/guitars"] = `{"openapi":"3.0.0","components":{"schemas":{"a":null}}}`
	})
	c := as(t, connect(t, &rest.Config{Host: api.URL}), userclient.User{OwnCredentials: true})
	if _, _, err := c.Schema(t.Context(), guitars); !errors.Is(err, failure.ErrNotFound) {
		t.Errorf("a schema that is null: %v", err)
	}
}

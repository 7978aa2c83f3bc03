package apply_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var (
	configMaps = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	shops      = object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true, Status: true, Custom: true}
	namespaces = object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
)

// server is a fake API server that records requests and returns a given response.
type server struct {
	mu       sync.Mutex
	requests []string
	observed []string
}

// writer starts the server and returns a Writer for it.
func (s *server) writer(t *testing.T, options apply.Options, respond http.HandlerFunc) *apply.Writer {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.Header().Set("Content-Type", "application/json")
		respond(w, r)
	}))
	t.Cleanup(api.Close)
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: api.URL, QPS: -1, ContentConfig: rest.ContentConfig{
		NegotiatedSerializer: serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()}})).In(t)
	options.Observe = func(resource object.Resource, verb, outcome string, took time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.observed = append(s.observed, fmt.Sprintf("%s %s %s", verb, resource, outcome))
	}
	return apply.New(client, options)
}

func newServer(t *testing.T, options apply.Options, respond http.HandlerFunc) (*server, *apply.Writer) {
	t.Helper()
	s := &server{}
	w := s.writer(t, options, respond)
	return s, w
}

func writeJSON(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

const (
	wanted = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"town","uid":"u-1"}}`
	stored = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"town","uid":"u-1","resourceVersion":"8"}}`
)

// write is a method of a Writer with its arguments.
type write func(ctx context.Context, w *apply.Writer) (*object.Object, error)

func writes(t *testing.T) map[string]write {
	o := parse(t, wanted)
	return map[string]write{
		"get": func(ctx context.Context, w *apply.Writer) (*object.Object, error) {
			return w.Get(ctx, configMaps, "town", "a")
		},
		"create": func(ctx context.Context, w *apply.Writer) (*object.Object, error) {
			return w.Create(ctx, configMaps, o, "")
		},
		"update": func(ctx context.Context, w *apply.Writer) (*object.Object, error) {
			return w.Update(ctx, configMaps, o, "")
		},
		"update_status": func(ctx context.Context, w *apply.Writer) (*object.Object, error) {
			return w.Update(ctx, shops, o, apply.StatusPart)
		},
		"delete": func(ctx context.Context, w *apply.Writer) (*object.Object, error) {
			return w.Delete(ctx, configMaps, o)
		},
	}
}

func TestRequests(t *testing.T) {
	const of = "?fieldManager=setpoint "
	for verb, want := range map[string]string{
		"get":           "GET /api/v1/namespaces/town/configmaps/a",
		"create":        "POST /api/v1/namespaces/town/configmaps" + of + wanted,
		"update":        "PUT /api/v1/namespaces/town/configmaps/a" + of + wanted,
		"update_status": "PUT /apis/example.org/v1/namespaces/town/shops/a/status?fieldManager=setpoint&fieldValidation=Ignore " + wanted,
		"delete": "DELETE /api/v1/namespaces/town/configmaps/a " +
			`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u-1"},"propagationPolicy":"Background"}`,
	} {
		t.Run(verb, func(t *testing.T) {
			s, w := newServer(t, apply.Options{}, writeJSON(http.StatusOK, stored))
			got := must.Get(writes(t)[verb](t.Context(), w)).In(t)
			if verb != "delete" && got.Version() != 8 {
				t.Errorf("got %s, want what the server stored", got.JSON())
			}
			if len(s.requests) != 1 || s.requests[0] != want {
				t.Errorf("sent %q, want %q", s.requests, want)
			}
		})
	}
}

func TestManagerAndClusterScope(t *testing.T) {
	s, w := newServer(t, apply.Options{}, writeJSON(http.StatusCreated, stored))
	namespace := parse(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`)
	must.Get(w.Create(t.Context(), namespaces, namespace, "mine")).In(t)
	if want := "POST /api/v1/namespaces?fieldManager=mine&fieldValidation=Strict " + string(namespace.JSON()); s.requests[0] != want {
		t.Errorf("sent %q, want %q", s.requests[0], want)
	}
}

func TestDeleteReturnsWhatIsLeft(t *testing.T) {
	const deleting = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"town","uid":"u-1","deletionTimestamp":"2026-01-01T00:00:00Z"}}`
	for name, c := range map[string]struct {
		code       int
		body, left string
		fails      bool
	}{
		"takes time":           {http.StatusOK, deleting, deleting, false},
		"gone, with a status":  {http.StatusOK, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"uid":"u-1"}}`, "", false},
		"gone, as it was":      {http.StatusOK, stored, "", false},
		"was gone":             {http.StatusNotFound, status(404, "NotFound", `configmaps "a" not found`, ""), "", false},
		"another of that name": {http.StatusConflict, status(409, "Conflict", "the UID in the precondition (u-1) does not match", ""), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			left, err := new(server).writer(t, apply.Options{}, writeJSON(c.code, c.body)).Delete(t.Context(), configMaps, parse(t, wanted))
			if (err != nil) != c.fails || c.fails && !apply.Conflict(err) {
				t.Errorf("error: %v", err)
			}
			if got := jsonOf(left); got != c.left {
				t.Errorf("left %q, want %q", got, c.left)
			}
		})
	}
}

func jsonOf(o *object.Object) string {
	if o == nil {
		return ""
	}
	return string(o.JSON())
}

// status returns a Status error as the API server does.
func status(code int, reason, message, cause string) string {
	details := ""
	if cause != "" {
		details = fmt.Sprintf(`,"details":{"name":"a","causes":[{"reason":%q,"message":"namespace town is being terminated","field":"metadata.namespace"}]}`, cause)
	}
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q%s,"code":%d}`, message, reason, details, code)
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		code                  int
		body                  string
		message, outcome, are string
	}{
		"invalid": {422, status(422, "Invalid", `ConfigMap "A" is invalid: metadata.name: Invalid value: "A"`, ""),
			`ConfigMap "A" is invalid: metadata.name: Invalid value: "A"`, "Invalid", ""},
		"exists":   {409, status(409, "AlreadyExists", `configmaps "a" already exists`, ""), `configmaps "a" already exists`, "AlreadyExists", "exists"},
		"conflict": {409, status(409, "Conflict", "the object has been modified", ""), "the object has been modified", "Conflict", "conflict"},
		"gone":     {404, status(404, "NotFound", `configmaps "a" not found`, ""), `configmaps "a" not found`, "NotFound", "gone"},
		"quota":    {403, status(403, "Forbidden", "exceeded quota: q", ""), "exceeded quota: q", "Forbidden", ""},
		"namespace going away": {403, status(403, "Forbidden", `unable to create new content in namespace town because it is being terminated`, "NamespaceTerminating"),
			"unable to create new content in namespace town because it is being terminated", "Forbidden", "terminating"},
		"webhook denies": {400, status(400, "BadRequest", `admission webhook "w" denied the request: no`, ""), `admission webhook "w" denied the request: no`, "BadRequest", ""},
		"unauthorized":   {401, status(401, "Unauthorized", "Unauthorized", ""), "Unauthorized", "Unauthorized", "unreachable"},
		"broken":         {500, status(500, "InternalError", "etcdserver: no leader", ""), "etcdserver: no leader", "InternalError", "unreachable"},
		"unknown field": {500, status(500, "", "failed to create typed patch object (town/a; v1, Kind=ConfigMap): .x: field not declared in schema", ""),
			"x: field not declared in schema", "Invalid", ""},
		"proxy":       {502, "<html>bad gateway", "", "InternalError", "unreachable"},
		"unavailable": {503, status(503, "ServiceUnavailable", "apiserver is shutting down", ""), "apiserver is shutting down", "ServiceUnavailable", "unreachable"},
		"not JSON":    {404, `{"kind":`, "", "NotFound", "gone"},
		"success":     {404, `{"kind":"Status","status":"Success"}`, "", "NotFound", "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			var s server
			_, err := writes(t)["create"](t.Context(), s.writer(t, apply.Options{}, writeJSON(c.code, c.body)))
			if err == nil || !strings.Contains(err.Error(), c.message) {
				t.Fatalf("got %v, want an error with %q", err, c.message)
			}
			if got := kindsOf(fmt.Errorf("wrapped: %w", err)); got != c.are {
				t.Errorf("taken for %q, want %q", got, c.are)
			}
			if want := "create configmaps.v1 " + c.outcome; s.observed[0] != want {
				t.Errorf("observed %q, want %q", s.observed[0], want)
			}
		})
	}
}

func kindsOf(err error) string {
	var kinds []string
	for name, is := range map[string]func(error) bool{
		"conflict": apply.Conflict, "exists": apply.AlreadyExists, "gone": apply.NotFound, "terminating": apply.Terminating, "unreachable": apply.Unreachable,
	} {
		if is(err) {
			kinds = append(kinds, name)
		}
	}
	return strings.Join(kinds, " ")
}

func TestUnreachable(t *testing.T) {
	truncated := new(server).writer(t, apply.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"apiVersion":`)
	})
	if _, err := writes(t)["update"](t.Context(), truncated); !apply.Unreachable(err) {
		t.Errorf("a truncated response: %v", err)
	}
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: refused.URL, QPS: -1, ContentConfig: rest.ContentConfig{
		NegotiatedSerializer: serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()}})).In(t)
	if _, err := writes(t)["update"](t.Context(), apply.New(client, apply.Options{})); !apply.Unreachable(err) {
		t.Errorf("no server: %v", err)
	}
	if apply.Unreachable(nil) || apply.Unreachable(context.Canceled) {
		t.Error("no error, or an end of our own making, is taken for a server that is away")
	}
}

func TestAResponseThatIsNoObject(t *testing.T) {
	for _, body := range []string{``, `[]`, `null`, `{"metadata":7}`} {
		w := new(server).writer(t, apply.Options{}, writeJSON(http.StatusCreated, body))
		if got, err := writes(t)["create"](t.Context(), w); err == nil {
			t.Errorf("%q is taken for %s", body, jsonOf(got))
		}
	}
}

func TestWaitingForASlotEnds(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{})
	s, w := newServer(t, apply.Options{Parallel: 1}, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, stored)
	})
	first := make(chan error)
	go func() {
		_, err := w.Get(context.Background(), configMaps, "town", "a")
		first <- err
	}()
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Get(ctx, configMaps, "town", "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a slot ends with %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if len(s.requests) != 1 {
		t.Errorf("%d requests were sent at once: %q", len(s.requests), s.requests)
	}
}

func TestTheBodyOfADeletionIsJSON(t *testing.T) {
	s, w := newServer(t, apply.Options{}, writeJSON(http.StatusOK, stored))
	odd := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"town","uid":"\u0007é\u2028"}}`)
	must.Get(w.Delete(t.Context(), configMaps, odd)).In(t)
	_, body, _ := strings.Cut(s.requests[0], "configmaps/a ")
	var options struct{ Preconditions struct{ UID string } }
	if err := json.Unmarshal([]byte(body), &options); err != nil || options.Preconditions.UID != odd.UID() {
		t.Errorf("sent %s: %v", body, err)
	}
}

var pods = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}

func TestRequestsWithoutAPlan(t *testing.T) {
	const deletion = `"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u-1"},"propagationPolicy":"Background"`
	o := parse(t, wanted)
	for name, c := range map[string]struct {
		write      func(ctx context.Context, w *apply.Writer) error
		want, kind string
	}{
		"patch": {func(ctx context.Context, w *apply.Writer) error {
			_, err := w.Patch(ctx, configMaps, o, []byte(`{"a":1}`), "")
			return err
		}, `PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=setpoint {"a":1}`, "application/merge-patch+json"},
		"status": {func(ctx context.Context, w *apply.Writer) error {
			_, err := w.Patch(ctx, shops, o, []byte(`{"status":{}}`), apply.StatusPart)
			return err
		}, `PATCH /apis/example.org/v1/namespaces/town/shops/a/status?fieldManager=setpoint&fieldValidation=Ignore {"status":{}}`, "application/merge-patch+json"},
		"apply": {func(ctx context.Context, w *apply.Writer) error {
			_, err := w.Apply(ctx, configMaps, o, "rates")
			return err
		}, `PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=rates&force=true ` + wanted, "application/apply-patch+yaml"},
		"evict": {func(ctx context.Context, w *apply.Writer) error { return w.Evict(ctx, pods, o) },
			`POST /api/v1/namespaces/town/pods/a/eviction?fieldManager=setpoint {"kind":"Eviction","apiVersion":"policy/v1",` +
				`"metadata":{"name":"a","namespace":"town"},"deleteOptions":{` + deletion + `}}`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			var s server
			var kind string
			err := c.write(t.Context(), s.writer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
				kind = r.Header.Get("Content-Type")
				_, _ = io.WriteString(w, stored)
			}))
			if err != nil || s.requests[0] != c.want || kind != c.kind {
				t.Errorf("%v: sent %s as %s\nwant %s", err, s.requests[0], kind, c.want)
			}
		})
	}
}

func TestEvictions(t *testing.T) {
	pod := parse(t, wanted)
	for name, c := range map[string]struct {
		code          int
		fine, refused bool
	}{
		"evicted": {http.StatusCreated, true, false},
		"gone":    {http.StatusNotFound, true, false},
		"budget":  {http.StatusTooManyRequests, false, true},
		"another": {http.StatusConflict, false, false},
	} {
		respond := writeJSON(c.code, status(c.code, map[int]string{404: "NotFound", 409: "Conflict", 429: "TooManyRequests"}[c.code], "no", ""))
		s, w := newServer(t, apply.Options{}, respond)
		err := w.Evict(t.Context(), pods, pod)
		if (err == nil) != c.fine || apply.TooManyRequests(err) != c.refused || len(s.requests) != 1 {
			t.Errorf("%s: %v after %d requests", name, err, len(s.requests))
		}
	}
}

func TestListsComeInPages(t *testing.T) {
	s, w := newServer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") == "" {
			_, _ = io.WriteString(w, `{"metadata":{"continue":"more"},"items":[{"metadata":{"name":"a"}}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"metadata":{},"items":[{"metadata":{"name":"b"}}]}`)
	})
	all, err := w.List(t.Context(), pods, "town", "app=web")
	if err != nil || len(all) != 2 || all[1].Name() != "b" || all[1].Kind() != "Pod" {
		t.Errorf("read %v, %v", all, err)
	}
	if len(s.requests) != 2 || !strings.Contains(s.requests[1], "continue=more") || !strings.Contains(s.requests[1], "labelSelector=app%3Dweb") {
		t.Errorf("requests %q", s.requests)
	}
}

package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// fakeSource is a Source with one response to each request. It records the requests.
type fakeSource struct {
	calls   []any
	err     error
	changed chan struct{}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ref() object.Ref {
	return object.Ref{Kind: object.Kind{Group: "example.com", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true},
		Namespace: "shop", Name: "red & <blue>", UID: "u"}
}

func (c *fakeSource) record(called ...any) error {
	c.calls = called
	return c.err
}

func (*fakeSource) Name() string { return "canned" }

func (c *fakeSource) Process(context.Context) (inspect.Process, error) {
	return inspect.Process{Name: "canned", Started: noon, Watches: []inspect.Watch{{Selection: "pods.v1", Objects: 3}}}, c.record()
}

func (c *fakeSource) Controllers(context.Context) ([]inspect.Controller, error) {
	at := ref()
	return []inspect.Controller{{Name: "x/teams", Process: "canned", Declared: &at, Description: []string{"does <this>"},
		Last: &inspect.Failure{Message: "m", Time: noon}}}, c.record()
}

func (c *fakeSource) Objects(_ context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	return inspect.Page{Total: 2, States: map[inspect.State]int{inspect.StateFailing: 1},
		Objects: []inspect.ObjectState{{Ref: ref(), Process: "canned", State: inspect.StateFailing}}}, c.record(controller, q)
}

func (c *fakeSource) States(_ context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	return []inspect.ObjectState{{Ref: ref, Process: "canned", ChildStates: []inspect.Child{{Ref: ref, Health: "Current"}}}}, c.record(ref)
}

func (c *fakeSource) Runs(_ context.Context, ref object.Ref, limit int) ([]inspect.Run, error) {
	return []inspect.Run{{ID: 7, Process: "canned", Object: ref, Took: time.Second}}, c.record(ref, limit)
}

func (c *fakeSource) Run(_ context.Context, id uint64, tokens bool) (inspect.Run, error) {
	return inspect.Run{ID: id, Process: "canned", Began: noon, Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync",
		Request: json.RawMessage(`{"a":"<b>"}`)}}}}, c.record(id, tokens)
}

func (c *fakeSource) Reviews(_ context.Context, controller string, detailed bool) ([]inspect.Run, error) {
	return []inspect.Run{{ID: 8, Process: "canned", Outcome: inspect.ReviewDenied}}, c.record(controller, detailed)
}

func (c *fakeSource) Plan(_ context.Context, controller string, ref object.Ref, edited json.RawMessage) (inspect.Plan, error) {
	return inspect.Plan{Text: "nothing", Report: json.RawMessage(`{}`)}, c.record(controller, ref, string(edited))
}

func (c *fakeSource) Record(_ context.Context, filter recording.Filter, _ io.Writer) error {
	return c.record(filter)
}

func (c *fakeSource) SetLogLevel(_ context.Context, level string) error { return c.record(level) }

func (c *fakeSource) Diagnostic(_ context.Context, name string) ([]byte, error) {
	return []byte("up 1\n"), c.record(name)
}

func (c *fakeSource) Await(ctx context.Context, since uint64) (uint64, error) {
	if since != 4 {
		return 4, c.err
	}
	select {
	case <-c.changed:
		return 5, nil
	case <-ctx.Done():
		return since, ctx.Err()
	}
}

const secret = Token("secret")

// serve makes a client of a Source behind HTTP.
func serve(t *testing.T, source inspect.Source) inspect.Source {
	t.Helper()
	return connect(t, "canned", Handler(source, secret), secret)
}

// connect makes a client of a server.
func connect(t *testing.T, name string, handler http.Handler, credential Credential) inspect.Source {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return NewClient(name, must.Get(url.Parse(server.URL)).In(t), nil, credential)
}

// calls are all questions there are, with arguments.
func calls() map[string][]any {
	var gold inspect.LabelSelector
	_ = gold.Set("tier in (gold,silver),!old") // A wrong one selects everything, which the test sees.
	return map[string][]any{
		"Name":        {},
		"Process":     {},
		"Controllers": {},
		"Objects": {"x/teams", inspect.Query{Labels: gold, Text: "a&b=<c>", State: inspect.StateFailing, Sort: "name", Reverse: true,
			Offset: 2, Limit: 9}},
		"States":      {ref()},
		"Runs":        {ref(), 12},
		"Reviews":     {"x/teams", true},
		"Run":         {uint64(1) << 63, true},
		"Record":      {recording.Filter{Controller: "x/teams", Namespace: "shop"}, io.Discard},
		"Plan":        {"x/teams", ref(), json.RawMessage(`{"spec":{"a":"<b>"}}`)},
		"SetLogLevel": {"debug"},
		"Diagnostic":  {"metrics"},
		"Await":       {uint64(3)},
	}
}

// callMethod calls a method of a Source by its name.
func callMethod(t *testing.T, source inspect.Source, method string, args []any) (responses []any, err error) {
	t.Helper()
	m := reflect.ValueOf(source).MethodByName(method)
	var in []reflect.Value
	if m.Type().NumIn() > len(args) {
		in = append(in, reflect.ValueOf(t.Context()))
	}
	in = append(in, lists.Map(args, reflect.ValueOf)...)
	for _, out := range m.Call(in) {
		if problem, is := reflect.TypeAssert[error](out); is {
			err = problem
			continue
		}
		responses = append(responses, out.Interface())
	}
	return responses, err
}

func TestEveryMethodRoundTrips(t *testing.T) {
	all := calls()
	for m := range reflect.TypeFor[inspect.Source]().Methods() {
		t.Run(m.Name, func(t *testing.T) {
			args, known := all[m.Name]
			if !known {
				t.Fatalf("no call of %s here: is it served?", m.Name)
			}
			here, there := &fakeSource{}, &fakeSource{}
			want := must.Get(callMethod(t, here, m.Name, args)).In(t)
			got := must.Get(callMethod(t, serve(t, there), m.Name, args)).In(t)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(queue.Causes{})); diff != "" {
				t.Errorf("the answer (-here +there):\n%s", diff)
			}
			if diff := cmp.Diff(here.calls, there.calls, cmp.Comparer(func(a, b inspect.LabelSelector) bool { return a.String() == b.String() })); diff != "" {
				t.Errorf("what was asked (-here +there):\n%s", diff)
			}
		})
	}
}

func TestErrorsRoundTrip(t *testing.T) {
	for _, kind := range []error{failure.ErrNotFound, errors.New("the book is wet")} {
		here := &fakeSource{err: fmt.Errorf("run 7 of shop/red: %w", kind)}
		_, err := serve(t, here).Run(t.Context(), 7, false)
		if err == nil || err.Error() != here.err.Error() {
			t.Errorf("error %v, want %v", err, here.err)
		}
		if errors.Is(err, failure.ErrNotFound) != errors.Is(here.err, failure.ErrNotFound) {
			t.Errorf("%v: whether it is ErrNotFound got lost", err)
		}
	}
}

func TestAwaitWaitsForChange(t *testing.T) {
	source := &fakeSource{changed: make(chan struct{})}
	reader := serve(t, source)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := reader.Await(ctx, 4)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want the context's error", err)
	}
	close(source.changed)
	if now, err := reader.Await(t.Context(), 4); now != 5 || err != nil {
		t.Errorf("Await(4) = %d, %v; want 5", now, err)
	}
}

func TestUnauthorizedRequests(t *testing.T) {
	for _, test := range []struct {
		name, path, body string
		change           func(*http.Request)
		status           int
		words            string
	}{
		{"a plain request", "process", "", func(*http.Request) {}, 200, ""},
		{"localhost", "process", "", func(r *http.Request) { r.Host = "localhost:1" }, 200, ""},
		{"IPv6", "process", "", func(r *http.Request) { r.Host = "[::1]:80" }, 200, ""},
		{"a page", "process", "", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403, "not for web pages"},
		{"a name made to lead here", "process", "", func(r *http.Request) { r.Host = "evil.example:8082" }, 403, "use an IP"},
		{"no token", "process", "", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "token"},
		{"another token", "process", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer secre") }, 401, "token"},
		{"an empty token", "process", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401, "token"},
		{"a longer token", "process", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer secrets") }, 401, "token"},
		{"a password", "process", "", func(r *http.Request) { r.SetBasicAuth("secret", "secret") }, 401, "token"},
		{"the token as a parameter", "process?token=secret", "", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "token"},
		{"no token, elsewhere", "../v9/process", "", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "token"},
		{"too much", "runs", `{"limit":100000}`, func(*http.Request) {}, 400, "limit"},
		{"no number", "run", `{"id":"seven"}`, func(*http.Request) {}, 400, "arguments: "},
		{"no JSON", "about", "red", func(*http.Request) {}, 400, "arguments: "},
		{"no selector", "objects", `{"query":{"labels":"a b"}}`, func(*http.Request) {}, 400, "label selector"},
		{"a filter of a newer client", "objects", `{"query":{"color":"red"}}`, func(*http.Request) {}, 400, `unknown field`},
		{"another version", "../v9/process", "", func(*http.Request) {}, 404, Prefix},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8082"+strings.Replace(Prefix+test.path, Version+"/../", "", 1),
				strings.NewReader(test.body))
			r.Header.Set("Authorization", "Bearer secret")
			test.change(r)
			w := httptest.NewRecorder()
			Handler(&fakeSource{}, secret).ServeHTTP(w, r)
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.words) {
				t.Errorf("status %d, %s; want %d with %q", w.Code, w.Body, test.status, test.words)
			}
		})
	}
}

func TestAnotherServerIsNamed(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.Handler
		words   string
	}{
		{"a page", http.NotFoundHandler(), "is not Setpoint, or has another version"},
		{"another version", Handler(&fakeSource{}, secret), "another version"},
		{"no JSON", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }),
			"invalid response of the process teams for " + Prefix},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			base := must.Get(url.Parse(server.URL + "/elsewhere")).In(t)
			if _, err := NewClient("teams", base, nil, secret).Process(t.Context()); err == nil ||
				!strings.Contains(err.Error(), test.words) {
				t.Errorf("error %v, want %q", err, test.words)
			}
		})
	}
}

// slowSource is a Source whose plans take until they are let go on.
type slowSource struct {
	fakeSource
	begun, goOn chan struct{}
}

func (s *slowSource) Plan(context.Context, string, object.Ref, json.RawMessage) (inspect.Plan, error) {
	s.begun <- struct{}{}
	<-s.goOn
	return inspect.Plan{}, nil
}

func TestPlansAreBounded(t *testing.T) {
	source := &slowSource{begun: make(chan struct{}), goOn: make(chan struct{})}
	handler := Handler(source, secret)
	plan := func() int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+Prefix+pathPlan, http.NoBody)
		r.Header.Set("Authorization", "Bearer secret")
		handler.ServeHTTP(w, r)
		return w.Code
	}
	responses := make(chan int)
	for range maxPlans {
		go func() { responses <- plan() }()
		<-source.begun
	}
	if code := plan(); code != http.StatusTooManyRequests {
		t.Errorf("one too many is answered with %d", code)
	}
	close(source.goOn)
	for range maxPlans {
		if code := <-responses; code != http.StatusOK {
			t.Errorf("a plan is answered with %d", code)
		}
	}
}

// rotatedToken is a credential whose token changes when it is refused.
type rotatedToken struct{ before, after Token }

func (c rotatedToken) Token(_ context.Context, refused string) (string, error) {
	if refused == string(c.before) && c.before != "" || c.before == "" {
		return string(c.after), nil
	}
	return string(c.before), nil
}

// guardFunc is a Guard.
type guardFunc func(given string) error

func (g guardFunc) Admit(_ context.Context, given string) error { return g(given) }

func TestTokenIsRefreshedOnce(t *testing.T) {
	for _, test := range []struct {
		name       string
		credential rotatedToken
		want       string
		calls      int
	}{
		{"renewed meanwhile", rotatedToken{"old", secret}, "", 2},
		{"another one again", rotatedToken{"old", "older"}, "denied the request: missing or invalid token", 2},
		{"the same", rotatedToken{"", "old"}, "denied the request: missing or invalid token", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			called := 0
			_, err := connect(t, "canned", Handler(&fakeSource{}, guardFunc(func(given string) error {
				called++
				return secret.Admit(t.Context(), given)
			})), test.credential).Process(t.Context())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || called != test.calls {
				t.Errorf("called %d times: %v; want %d times: %s", called, err, test.calls, test.want)
			}
		})
	}
}

// A Guard that cannot tell admits no request, and says why.
func TestGuardError(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(&fakeSource{}, guardFunc(func(string) error { return errors.New("the Secret is lost") })).
		ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+Prefix+pathProcess, http.NoBody))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the Secret is lost") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	Handler(&fakeSource{}, Token("")).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+Prefix+pathProcess, http.NoBody))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("an empty token is guarded with status %d", w.Code)
	}
}

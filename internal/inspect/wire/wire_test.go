package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// canned is a Source with one answer to each question. It notes what it was asked.
type canned struct {
	asked []any
	err   error
	news  chan struct{}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ref() inspect.Ref {
	return inspect.Ref{Kind: inspect.Kind{Group: "example.com", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true}, Namespace: "shop", Name: "red & <blue>", UID: "u"}
}

func (c *canned) note(asked ...any) error {
	c.asked = asked
	return c.err
}

func (*canned) Name() string { return "canned" }

func (c *canned) Process(context.Context) (inspect.Process, error) {
	return inspect.Process{Name: "canned", Started: noon, Watches: []inspect.Watch{{Selection: "pods.v1", Objects: 3}}}, c.note()
}

func (c *canned) Controllers(context.Context) ([]inspect.Controller, error) {
	at := ref()
	return []inspect.Controller{{Name: "x/teams", Process: "canned", Declared: &at, Words: []string{"does <this>"}, Last: &inspect.Failure{Message: "m", Time: noon}}}, c.note()
}

func (c *canned) Objects(_ context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	return inspect.Page{Total: 2, States: map[inspect.State]int{inspect.Failing: 1}, Objects: []inspect.Care{{Ref: ref(), Process: "canned", State: inspect.Failing}}}, c.note(controller, q)
}

func (c *canned) About(_ context.Context, ref inspect.Ref) ([]inspect.Care, error) {
	return []inspect.Care{{Ref: ref, Process: "canned", Family: []inspect.Child{{Ref: ref, Health: "Current"}}}}, c.note(ref)
}

func (c *canned) Runs(_ context.Context, ref inspect.Ref, limit int) ([]inspect.Run, error) {
	return []inspect.Run{{ID: 7, Process: "canned", Object: ref, Took: time.Second}}, c.note(ref, limit)
}

func (c *canned) Run(_ context.Context, id uint64) (inspect.Run, error) {
	return inspect.Run{ID: id, Process: "canned", Began: noon, Steps: []inspect.Step{{Ask: &inspect.Ask{What: "sync", Request: json.RawMessage(`{"a":"<b>"}`)}}}}, c.note(id)
}

func (c *canned) Plan(_ context.Context, controller string, ref inspect.Ref) (inspect.Plan, error) {
	return inspect.Plan{Text: "nothing", Report: json.RawMessage(`{}`)}, c.note(controller, ref)
}

func (c *canned) Await(ctx context.Context, since uint64) (uint64, error) {
	if since != 4 {
		return 4, c.err
	}
	select {
	case <-c.news:
		return 5, nil
	case <-ctx.Done():
		return since, ctx.Err()
	}
}

const secret = Token("secret")

// serve makes a client of a Source behind HTTP.
func serve(t *testing.T, source inspect.Source) inspect.Source {
	t.Helper()
	server := httptest.NewServer(Handler(source, secret))
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return NewClient("canned", base, nil, secret)
}

// calls are all questions there are, with arguments.
func calls() map[string][]any {
	return map[string][]any{
		"Name":        {},
		"Process":     {},
		"Controllers": {},
		"Objects":     {"x/teams", inspect.Query{Text: "a&b=<c>", State: inspect.Failing, Sort: "name", Reverse: true, Offset: 2, Limit: 9}},
		"About":       {ref()},
		"Runs":        {ref(), 12},
		"Run":         {uint64(1) << 63},
		"Plan":        {"x/teams", ref()},
		"Await":       {uint64(3)},
	}
}

// ask calls a method of a Source by its name.
func ask(t *testing.T, source inspect.Source, method string, args []any) (answers []any, err error) {
	t.Helper()
	m := reflect.ValueOf(source).MethodByName(method)
	var in []reflect.Value
	if m.Type().NumIn() > len(args) {
		in = append(in, reflect.ValueOf(t.Context()))
	}
	for _, arg := range args {
		in = append(in, reflect.ValueOf(arg))
	}
	for _, out := range m.Call(in) {
		if problem, is := reflect.TypeAssert[error](out); is {
			err = problem
			continue
		}
		answers = append(answers, out.Interface())
	}
	return answers, err
}

func TestEveryMethodRoundTrips(t *testing.T) {
	all := calls()
	for m := range reflect.TypeFor[inspect.Source]().Methods() {
		t.Run(m.Name, func(t *testing.T) {
			args, known := all[m.Name]
			if !known {
				t.Fatalf("no call of %s here: is it served?", m.Name)
			}
			here, there := &canned{}, &canned{}
			want, err := ask(t, here, m.Name, args)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ask(t, serve(t, there), m.Name, args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the answer (-here +there):\n%s", diff)
			}
			if diff := cmp.Diff(here.asked, there.asked); diff != "" {
				t.Errorf("what was asked (-here +there):\n%s", diff)
			}
		})
	}
}

func TestErrorsKeepTheirKindAndWords(t *testing.T) {
	for _, kind := range []error{inspect.ErrNotFound, errors.New("the book is wet")} {
		here := &canned{err: fmt.Errorf("run 7 of shop/red: %w", kind)}
		_, err := serve(t, here).Run(t.Context(), 7)
		if err == nil || err.Error() != here.err.Error() {
			t.Errorf("error %v, want %v", err, here.err)
		}
		if errors.Is(err, inspect.ErrNotFound) != errors.Is(here.err, inspect.ErrNotFound) {
			t.Errorf("%v: whether it is ErrNotFound got lost", err)
		}
	}
}

func TestAwaitWaitsForNews(t *testing.T) {
	source := &canned{news: make(chan struct{})}
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
	close(source.news)
	if now, err := reader.Await(t.Context(), 4); now != 5 || err != nil {
		t.Errorf("Await(4) = %d, %v; want 5", now, err)
	}
}

func TestWhoIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, path string
		change     func(*http.Request)
		status     int
		words      string
	}{
		{"a plain request", "process", func(*http.Request) {}, 200, ""},
		{"localhost", "process", func(r *http.Request) { r.Host = "localhost:1" }, 200, ""},
		{"IPv6", "process", func(r *http.Request) { r.Host = "[::1]:80" }, 200, ""},
		{"a page", "process", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403, "not for web pages"},
		{"a name made to lead here", "process", func(r *http.Request) { r.Host = "evil.example:8082" }, 403, "use an IP"},
		{"no token", "process", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "token"},
		{"another token", "process", func(r *http.Request) { r.Header.Set("Authorization", "Bearer secre") }, 401, "token"},
		{"an empty token", "process", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401, "token"},
		{"a longer token", "process", func(r *http.Request) { r.Header.Set("Authorization", "Bearer secrets") }, 401, "token"},
		{"a password", "process", func(r *http.Request) { r.SetBasicAuth("secret", "secret") }, 401, "token"},
		{"the token as a parameter", "process?token=secret", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "token"},
		{"no token, elsewhere", "../v9/process", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "token"},
		{"too long", "objects?query=" + strings.Repeat("x", maxQuery), func(*http.Request) {}, 414, "longer"},
		{"too much", "runs?ref={}&limit=100000", func(*http.Request) {}, 400, "limit"},
		{"no number", "runs/seven", func(*http.Request) {}, 400, "id of a run"},
		{"no JSON", "about?ref=red", func(*http.Request) {}, 400, "parameter ref"},
		{"another version", "../v9/process", func(*http.Request) {}, 404, Prefix},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8082"+strings.Replace(Prefix+test.path, "v1/../", "", 1), http.NoBody)
			r.Header.Set("Authorization", "Bearer secret")
			test.change(r)
			w := httptest.NewRecorder()
			Handler(&canned{}, secret).ServeHTTP(w, r)
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
		{"a page", http.NotFoundHandler(), "no Setpoint, or of another version"},
		{"another version", Handler(&canned{}, secret), "another version"},
		{"no JSON", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }), "none of " + Prefix},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			base, err := url.Parse(server.URL + "/elsewhere")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := NewClient("teams", base, nil, secret).Process(t.Context()); err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("error %v, want %q", err, test.words)
			}
		})
	}
}

// slow is a Source whose plans take until they are let go on.
type slow struct {
	canned
	begun, goOn chan struct{}
}

func (s *slow) Plan(context.Context, string, inspect.Ref) (inspect.Plan, error) {
	s.begun <- struct{}{}
	<-s.goOn
	return inspect.Plan{}, nil
}

func TestPlansAreBounded(t *testing.T) {
	source := &slow{begun: make(chan struct{}), goOn: make(chan struct{})}
	handler := Handler(source, secret)
	plan := func() int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+Prefix+pathPlan, http.NoBody)
		r.Header.Set("Authorization", "Bearer secret")
		handler.ServeHTTP(w, r)
		return w.Code
	}
	answers := make(chan int)
	for range maxPlans {
		go func() { answers <- plan() }()
		<-source.begun
	}
	if code := plan(); code != http.StatusTooManyRequests {
		t.Errorf("one too many is answered with %d", code)
	}
	close(source.goOn)
	for range maxPlans {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a plan is answered with %d", code)
		}
	}
}

// changing is a credential whose token changes when it is refused.
type changing struct{ before, now Token }

func (c changing) Token(_ context.Context, refused string) (string, error) {
	if refused == string(c.before) && c.before != "" || c.before == "" {
		return string(c.now), nil
	}
	return string(c.before), nil
}

// guardFunc is a Guard.
type guardFunc func(given string) error

func (g guardFunc) Admit(_ context.Context, given string) error { return g(given) }

func TestATokenIsRenewedOnce(t *testing.T) {
	for _, test := range []struct {
		name       string
		credential changing
		want       string
		asked      int
	}{
		{"renewed meanwhile", changing{"old", secret}, "", 2},
		{"another one again", changing{"old", "older"}, "refuses: the token is missing, or another one", 2},
		{"the same", changing{"", "old"}, "refuses: the token is missing, or another one", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(Handler(&canned{}, guardFunc(func(given string) error {
				asked++
				return secret.Admit(t.Context(), given)
			})))
			defer server.Close()
			base, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			_, err = NewClient("canned", base, nil, test.credential).Process(t.Context())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || asked != test.asked {
				t.Errorf("asked %d times: %v; want %d times: %s", asked, err, test.asked, test.want)
			}
		})
	}
}

// A Guard that cannot tell admits no request, and says why.
func TestAGuardThatCannotTell(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(&canned{}, guardFunc(func(string) error { return errors.New("the Secret is lost") })).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+Prefix+pathProcess, http.NoBody))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the Secret is lost") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	Handler(&canned{}, Token("")).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+Prefix+pathProcess, http.NoBody))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("an empty token is guarded with status %d", w.Code)
	}
}

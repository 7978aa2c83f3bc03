package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// goProgram is a controller of a Go program, and its objects of some names.
func goProgram(names ...string) *still {
	c := teams()
	c.Name, c.Process = "shop/team", "shop"
	page := inspect.Page{Total: len(names), Matching: len(names), States: map[inspect.State]int{}}
	for _, name := range names {
		page.Objects = append(page.Objects, inspect.Care{Ref: inspect.Ref{Kind: c.Kinds[0], Namespace: "town", Name: name}, State: inspect.Well})
	}
	return &still{name: "shop", controllers: []inspect.Controller{c}, page: page}
}

// reconciles asks for all objects of the program, from a page that was shown before.
func reconciles(t *testing.T, s *Server, page string) *httptest.ResponseRecorder {
	t.Helper()
	_, token, _ := strings.Cut(page, `name="csrf" value="`)
	token, _, _ = strings.Cut(token, `"`)
	fields := url.Values{"stay": {"yes"}, "csrf": {token}}
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+programPage+"/reconcile", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Hx-Request", "true")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const programPage = "/controllers/shop/shop~team"

func TestReconcileAllOfAProgram(t *testing.T) {
	a := newAnswers(t, someKinds())
	const at = "/apis/example.org/v1/namespaces/town/teams/"
	a.byPath[at+"red"], a.byPath[at+"blue"], a.byPath[at+"locked"] = `{"metadata":{"name":"red"}}`, `{"metadata":{"name":"blue"}}`, "forbidden"
	s := a.window(t, goProgram("red", "blue", "locked", "gone"))
	page := get(t, s, programPage).Body.String()
	wants(t, page, `action="`+programPage+`/reconcile"`, "stop the program, or pause its objects one by one")
	w := reconciles(t, s, page)
	if said := w.Header().Get("Hx-Trigger"); !strings.Contains(said, "2 objects are being looked at. Of 1 more, the API server refused that") {
		t.Errorf("%d: said %s", w.Code, said)
	}
	for _, name := range []string{"red", "blue", "locked", "gone"} {
		if a.times(at+name+"?") != 1 {
			t.Errorf("%s was asked for %d times", name, a.times(at+name+"?"))
		}
	}
}

// longest is a program that is to be asked for the objects it looked at the longest ago.
type longest struct {
	*still
	t *testing.T
}

func (l *longest) Objects(ctx context.Context, name string, q inspect.Query) (inspect.Page, error) {
	if q.Limit == maxAsked && (q.Sort != "run" || !q.Reverse) {
		l.t.Errorf("asked for %+v", q)
	}
	return l.still.Objects(ctx, name, q)
}

// Of very many, as many are asked for as is right at a time, and the others are told of:
// who asks again reaches these.
func TestReconcileAllIsBounded(t *testing.T) {
	a := newAnswers(t, someKinds())
	names := make([]string, maxAsked+20)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
		a.byPath["/apis/example.org/v1/namespaces/town/teams/"+names[i]] = `{}`
	}
	source := &longest{still: goProgram(names...), t: t}
	s := a.window(t, source)
	w := reconciles(t, s, get(t, s, programPage).Body.String())
	if said := w.Header().Get("Hx-Trigger"); !strings.Contains(said, "500 objects are being looked at. 20 others were left out") {
		t.Errorf("%d: said %s", w.Code, said)
	}
	if n := a.times("/teams/t"); n != maxAsked {
		t.Errorf("%d were asked for", n)
	}
}

func TestReconcileAllNeedsAnAPIServer(t *testing.T) {
	a := newAnswers(t, someKinds())
	s := a.window(t, goProgram("red"))
	page := get(t, s, programPage).Body.String()
	a.Close()
	if w := reconciles(t, s, page); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d: %s", w.Code, w.Header())
	}
}

package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

func configMap(t *testing.T, name string) *object.Object {
	t.Helper()
	return parse(t, strings.Replace(wanted, `"a"`, fmt.Sprintf("%q", name), 1))
}

func action(t *testing.T, verb plan.Verb, name string) plan.Action {
	t.Helper()
	o := configMap(t, name)
	a := plan.Action{Verb: verb, Resource: configMaps, Ref: o.Ref(), Before: o, After: o}
	switch verb {
	case plan.Create:
		a.Before = nil
	case plan.Delete:
		a.After = nil
	}
	return a
}

// echo returns an object with the name in the path or, for a creation, in the body.
func echo(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, stored) }

func TestApplyPlanKeepsTheStages(t *testing.T) {
	var s server
	w := s.writer(t, apply.Options{}, echo)
	stages := [][]plan.Action{
		{action(t, plan.Delete, "d1"), action(t, plan.Delete, "d2")},
		{action(t, plan.Create, "c1")},
		{action(t, plan.Update, "u1"), action(t, plan.Adopt, "u2"), action(t, plan.Release, "u3")},
	}
	results := w.ApplyPlan(t.Context(), plan.Plan{Stages: stages})
	for i, want := range slices.Concat(stages...) {
		if results[i].Err != nil || results[i].Action.Ref != want.Ref {
			t.Errorf("result %d is of %s: %v; want %s", i, results[i].Action, results[i].Err, want)
		}
	}
	at := 0
	for i, stage := range stages {
		var verbs []string
		for _, request := range s.requests[at : at+len(stage)] {
			verbs = append(verbs, strings.Fields(request)[0])
		}
		if want := []string{"DELETE", "POST", "PUT"}[i]; slices.ContainsFunc(verbs, func(v string) bool { return v != want }) {
			t.Errorf("stage %d sent %v, want %s only", i, verbs, want)
		}
		at += len(stage)
	}
}

func TestApplyPlanContinuesAfterAFailure(t *testing.T) {
	var s server
	w := s.writer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "bad") {
			writeJSON(422, status(422, "Invalid", "no such thing", ""))(w, r)
			return
		}
		echo(w, r)
	})
	results := w.ApplyPlan(t.Context(), plan.Plan{Stages: [][]plan.Action{
		{action(t, plan.Update, "bad"), action(t, plan.Update, "good"), action(t, "guess", "what")},
		{action(t, plan.Update, "later")},
	}})
	var got []string
	for _, result := range results {
		got = append(got, fmt.Sprint(result.Err, " ", result.Stored != nil))
	}
	want := []string{"update ConfigMap town/bad: no such thing false", "<nil> true", `guess ConfigMap town/what: no such action: "guess" false`, "<nil> true"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A plan sends as many concurrent writes as allowed, and no more.
func TestApplyPlanIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ parallel, want int }{"by plan": {0, 16}, "in all": {3, 3}} {
		t.Run(name, func(t *testing.T) {
			var s server
			const actions = 40
			arrived, release := make(chan struct{}, actions), make(chan struct{})
			w := s.writer(t, apply.Options{Parallel: c.parallel}, func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				<-release
				echo(w, r)
			})
			var stage []plan.Action
			for i := range actions {
				stage = append(stage, action(t, plan.Create, fmt.Sprint("c", i)))
			}
			done := make(chan []apply.Result)
			go func() { done <- w.ApplyPlan(context.Background(), plan.Plan{Stages: [][]plan.Action{stage}}) }()
			for range c.want {
				<-arrived
			}
			// Each response lets one more request in: those without a response are concurrent.
			for responses := range actions - c.want {
				if len(arrived) != 0 {
					t.Errorf("after %d responses, more than %d are under way", responses, c.want)
				}
				release <- struct{}{}
				<-arrived
			}
			close(release)
			if results := <-done; len(results) != actions {
				t.Errorf("%d results", len(results))
			}
		})
	}
}

func TestApplyPlanEndsWithItsContext(t *testing.T) {
	var s server
	ctx, cancel := context.WithCancel(t.Context())
	w := s.writer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	results := w.ApplyPlan(ctx, plan.Plan{Stages: [][]plan.Action{
		{action(t, plan.Create, "a"), action(t, plan.Create, "b")}, {action(t, plan.Create, "c")}}})
	for _, result := range results {
		if !errors.Is(result.Err, context.Canceled) {
			t.Errorf("%s: %v", result.Action.Ref, result.Err)
		}
	}
	s.mu.Lock() // A canceled request may still arrive.
	defer s.mu.Unlock()
	if len(results) != 3 || len(s.requests) > 2 {
		t.Errorf("%d results, sent %q", len(results), s.requests)
	}
}

func TestAnEmptyPlanSendsNothing(t *testing.T) {
	var s server
	if results := s.writer(t, apply.Options{}, echo).ApplyPlan(t.Context(), plan.Plan{}); len(results) != 0 || len(s.requests) != 0 {
		t.Errorf("got %v, sent %q", results, s.requests)
	}
}

func TestChanged(t *testing.T) {
	before, after := parse(t, wanted), parse(t, stored)
	for name, c := range map[string]struct {
		result apply.Result
		want   bool
	}{
		"created":      {apply.Result{Stored: after}, true},
		"updated":      {apply.Result{Stored: after, Action: plan.Action{Before: before}}, true},
		"as it was":    {apply.Result{Stored: after, Action: plan.Action{Before: after}}, false},
		"deleted":      {apply.Result{Action: plan.Action{Before: before}}, true},
		"did not land": {apply.Result{Action: plan.Action{Before: before}, Err: errors.New("x")}, false},
	} {
		if got := c.result.Changed(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Fault G10: nothing is written into a namespace that could not be created. Deletions there go on.
func TestApplyPlanSkipsMissingNamespaces(t *testing.T) {
	taken := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/namespaces") {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409,"message":"taken"}`)
			return
		}
		echo(w, r)
	}
	var s server
	w := s.writer(t, apply.Options{}, taken)
	namespaces := object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
	home := action(t, plan.Update, "any").Ref.Namespace
	namespace := plan.Action{Verb: plan.Create, Resource: namespaces, Ref: object.Ref{Kind: object.Kind{Kind: "Namespace"}, Name: home},
		After: parse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, home))}
	elsewhere := action(t, plan.Create, "elsewhere")
	elsewhere.Ref.Namespace = "elsewhere"
	results := w.ApplyPlan(t.Context(), plan.Plan{Stages: [][]plan.Action{
		{action(t, plan.Delete, "old")}, {namespace},
		{action(t, plan.Create, "new"), action(t, plan.Update, "mine"), elsewhere},
	}})
	for _, result := range results {
		_, waits := errors.AsType[*apply.MissingNamespaceError](result.Err)
		ref := result.Action.Ref
		if want := ref.Name == "new" || ref.Name == "mine"; waits != want || !waits && (result.Err != nil) != (ref.Kind.Kind == "Namespace") {
			t.Errorf("%s: %v", result.Action, result.Err)
		}
	}
	if len(results) != 5 || len(s.requests) != 3 {
		t.Errorf("%d results of the requests %q", len(results), s.requests)
	}
}

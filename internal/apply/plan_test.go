package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
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
	s, w := newServer(t, apply.Options{}, echo)
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
		verbs := lists.Map(s.requests[at:at+len(stage)], func(request string) string { return strings.Fields(request)[0] })
		if want := []string{"DELETE", "POST", "PUT"}[i]; slices.ContainsFunc(verbs, func(v string) bool { return v != want }) {
			t.Errorf("stage %d sent %v, want %s only", i, verbs, want)
		}
		at += len(stage)
	}
}

func TestApplyPlanContinuesAfterAFailure(t *testing.T) {
	w := new(server).writer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
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
	got := lists.Map(results, func(result apply.Result) string { return fmt.Sprint(result.Err, " ", result.Stored != nil) })
	want := []string{"update ConfigMap town/bad: no such thing false", "<nil> true", `guess ConfigMap town/what: no such action: "guess" false`, "<nil> true"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A plan sends as many concurrent writes as allowed, and no more.
func TestApplyPlanIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ parallel, want int }{"by plan": {0, 16}, "in all": {3, 3}} {
		t.Run(name, func(t *testing.T) {
			const actions = 40
			arrived, release := make(chan struct{}, actions), make(chan struct{})
			w := new(server).writer(t, apply.Options{Parallel: c.parallel}, func(w http.ResponseWriter, r *http.Request) {
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
	ctx, cancel := context.WithCancel(t.Context())
	s, w := newServer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
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
	s, w := newServer(t, apply.Options{}, taken)
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

// Updates in the place of applies leave the same objects and the same owners of each field, whatever the
// desired objects and the writes of others are.
func TestUpdatesEqualApplies(t *testing.T) {
	updates := 0
	seeded(t, func(w generator, seed uint64) {
		cheap := newTestController(t, "setpoint.dev/applied-fields", true)
		plain := newTestController(t, "setpoint.dev/applied-fields", true)
		plain.onlyApply = true
		response := w.response()
		for turn := range 8 {
			others := w.Uint64()
			for _, k := range []*testController{cheap, plain} {
				k.setRules(rules(plan.InPlace, plan.ServerSide))
				k.disturb(generator{rand.New(rand.NewPCG(others, 0))}, response)
				k.reconcile(response)
			}
			if difference := sameOwners(cheap, plain); difference != "" {
				t.Fatalf("seed %d, turn %d: %s\nwish: %s\nwith updates: %s", seed, turn, difference, response, strings.Join(cheap.log, ", "))
			}
			if w.IntN(3) == 0 {
				response = w.response()
			} else {
				response = w.otherValues(response)
			}
		}
		updates += strings.Count(strings.Join(cheap.log, "\n")+"\n", ": PUT\n")
	})
	if updates == 0 {
		t.Error("no update was sent")
	}
}

// disturb makes writes of others: some set what is desired next, or apply it themselves.
func (k *testController) disturb(w generator, response []json.RawMessage) {
	if len(k.objects) == 0 || w.IntN(2) == 0 {
		return
	}
	for key, edit := range w.edits() {
		k.editAs("others", key, edit)
	}
	if w.IntN(2) == 0 {
		k.add(w)
	}
	for _, text := range response {
		var desired map[string]any
		must.Succeed(k.t, json.Unmarshal(text, &desired))
		key := strings.ToLower(desired["kind"].(string)) + "s/a"
		if desired["kind"] == "NetworkPolicy" {
			key = "networkpolicies/a"
		}
		switch w.IntN(6) {
		case 0:
			k.editAs("others", key, map[string]any{"metadata": map[string]any{"labels": desired["metadata"].(map[string]any)["labels"]}})
		case 1:
			delete(desired, w.text("data", "spec").(string))
			k.applyAs("kubectl", key, desired)
		}
	}
}

// applyAs applies an object as another manager.
func (k *testController) applyAs(manager, key string, desired map[string]any) {
	k.t.Helper()
	body := must.Get(json.Marshal(desired)).In(k.t)
	request := k.request(manager, key, body)
	request.Request = &http.Request{Method: http.MethodPatch, Header: http.Header{"Content-Type": {string(types.ApplyPatchType)}},
		URL: &url.URL{RawQuery: "force=true&fieldManager=" + manager}}
	if _, err := k.respond(request); err != nil && !apierrors.IsInvalid(err) {
		k.t.Fatal(err)
	}
}

// otherValues changes some values of a response, but no set of fields.
func (w generator) otherValues(response []json.RawMessage) (changed []json.RawMessage) {
	for _, text := range response {
		var o map[string]any
		if err := json.Unmarshal(text, &o); err != nil {
			panic(err)
		}
		for _, name := range slices.Sorted(maps.Keys(o)) {
			if members, isObject := o[name].(map[string]any); isObject {
				o[name] = w.otherValue(o["kind"] == "Secret" && name == "data", members)
			}
		}
		o["metadata"].(map[string]any)["name"] = "a"
		changed = append(changed, encode(o))
	}
	return changed
}

func (w generator) otherValue(secret bool, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch name {
			case "cpu", "memory":
				v[name] = w.text("1", "1000m", "2")
			case "name", "mountPath", "protocol":
				// The keys of items stay unique.
			default:
				v[name] = w.otherValue(secret, v[name])
			}
		}
	case []any:
		for i := range v {
			v[i] = w.otherValue(secret, v[i])
		}
	case string:
		switch {
		case w.IntN(3) > 0:
		case secret:
			return w.text("eA==", "eQ==", "eg==")
		default:
			return w.text("x", "y", "z")
		}
	case float64:
		if w.IntN(3) == 0 {
			return v + 1
		}
	case bool:
		return w.IntN(2) == 0
	}
	return value
}

// sameOwners returns the first object of two clusters that differs in content or in the owners of its fields.
func sameOwners(a, b *testController) string {
	for key, left := range a.objects {
		right := b.objects[key]
		if right == nil {
			return key + ": missing"
		}
		if x, y := ownersOf(a, key), ownersOf(b, key); x != y {
			return fmt.Sprintf("%s: owners\n%s\nbut by applies only\n%s", key, x, y)
		}
		if x, y := withoutRecord(left.Object), withoutRecord(right.Object); x != y {
			return fmt.Sprintf("%s:\n%s\nbut by applies only\n%s", key, x, y)
		}
	}
	return ""
}

// ownersOf returns the fields of each manager, by whatever operation it owns them.
func ownersOf(k *testController, key string) string {
	owners := map[string]any{}
	for _, e := range k.objects[key].GetManagedFields() {
		var fields map[string]any
		must.Succeed(k.t, json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields))
		name := e.Manager + " " + e.APIVersion + " " + e.Subresource
		if all, known := owners[name].(map[string]any); known {
			overlay(all, fields)
			fields = all
		}
		owners[name] = fields
	}
	for _, fields := range owners {
		withSelf(fields.(map[string]any))
	}
	return string(must.Get(json.MarshalIndent(owners, "", " ")).In(k.t))
}

// withSelf writes owned fields in one way: a field has "." if none is owned below it. That of a map with members
// is left out: who sets a member, owns the map.
func withSelf(fields map[string]any) {
	for name, below := range fields {
		if members := below.(map[string]any); name != "." {
			withSelf(members)
			if strings.HasPrefix(name, "f:") {
				delete(members, ".")
			}
			if len(members) == 0 {
				members["."] = map[string]any{}
			}
		}
	}
}

// withoutRecord returns an object without what differs by the requests that were sent.
func withoutRecord(fields map[string]any) string {
	o := maps.Clone(fields)
	metadata := maps.Clone(o["metadata"].(map[string]any))
	for _, name := range []string{"uid", "resourceVersion", "generation", "managedFields"} {
		delete(metadata, name)
	}
	annotations := maps.Clone(metadata["annotations"].(map[string]any))
	delete(annotations, plan.AppliedAnnotation)
	metadata["annotations"], o["metadata"] = annotations, metadata
	return string(encode(o))
}

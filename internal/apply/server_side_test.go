package apply_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// applying returns an action on an object with resource version 8.
func applying(t *testing.T, verb plan.Verb) plan.Action {
	t.Helper()
	before, after := parse(t, stored), parse(t, wanted)
	a := plan.Action{Verb: verb, Resource: configMaps, Ref: before.Ref(), Before: before, After: after, Manager: "mine", Desired: 1}
	if verb == plan.Delete {
		a.DryRunVerb = plan.Apply
	}
	return a
}

func applyOne(t *testing.T, w *apply.Writer, a plan.Action) apply.Result {
	t.Helper()
	return w.ApplyPlan(t.Context(), plan.Plan{Stages: [][]plan.Action{{a}}})[0]
}

func TestApplyRequests(t *testing.T) {
	var s server
	result := applyOne(t, s.writer(t, apply.Options{}, writeJSON(http.StatusOK, stored)), applying(t, plan.Apply))
	const want = "PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=mine&force=true " + wanted
	if result.Err != nil || result.Stored.Version() != 8 || strings.Join(s.requests, "\n") != want {
		t.Errorf("sent %q, want %q: %v", s.requests, want, result.Err)
	}
}

// A take over requires the version that was read, and keeps fields that it does not know.
func TestATakeOverNamesFormerManagers(t *testing.T) {
	var s server
	a := applying(t, plan.Apply)
	a.TakeOver = &plan.TakeOver{From: []plan.FormerManager{{Name: "mine"}}, RemoveAnnotations: []string{"example.org/applied~1", "not/there"}}
	w := s.writer(t, apply.Options{}, writeJSON(http.StatusOK, `{"metadata":{"name":"a","uid":"u-1","resourceVersion":"9","annotations":{"example.org/applied~1":"x"},"managedFields":[`+
		`{"manager":"mine","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}]}}`))
	if result := applyOne(t, w, a); result.Err != nil {
		t.Fatal(result.Err)
	}
	want := []string{
		"GET /api/v1/namespaces/town/configmaps/a",
		"PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=mine " +
			`[{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"mine","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}]},` +
			`{"op":"remove","path":"/metadata/annotations/example.org~1applied~01"},{"op":"replace","path":"/metadata/resourceVersion","value":"9"}]`,
		"PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=mine&force=true " + wanted,
	}
	if got := strings.Join(s.requests, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("sent\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if observed := strings.Join(s.observed, ", "); observed != "get configmaps.v1 ok, take_over configmaps.v1 ok, apply configmaps.v1 ok" {
		t.Errorf("observed %s", observed)
	}
}

// An apply to another object with the same name is a conflict.
func TestAnApplyOfAnotherObjectConflicts(t *testing.T) {
	immutable := strings.Replace(status(422, "Invalid", "metadata.uid: Invalid value: field is immutable", "FieldValueInvalid"), "metadata.namespace", "metadata.uid", 1)
	var s server
	if result := applyOne(t, s.writer(t, apply.Options{}, writeJSON(http.StatusUnprocessableEntity, immutable)), applying(t, plan.Apply)); !apply.Conflict(result.Err) {
		t.Errorf("another UID: %v", result.Err)
	}
	a := applying(t, plan.Apply)
	a.TakeOver = &plan.TakeOver{}
	w := s.writer(t, apply.Options{}, writeJSON(http.StatusOK, `{"metadata":{"name":"a","uid":"another","resourceVersion":"9"}}`))
	if result := applyOne(t, w, a); !apply.Conflict(result.Err) {
		t.Errorf("another UID, when taking over: %v", result.Err)
	}
	if len(s.requests) != 2 {
		t.Errorf("sent %q", s.requests)
	}
}

// Neither a stale object nor an error proves that a child differs.
func TestNothingIsDeletedFromAStaleCache(t *testing.T) {
	for name, c := range map[string]struct {
		code     int
		body     string
		takeOver bool
		conflict bool
	}{
		"changed meanwhile":              {http.StatusConflict, status(409, "Conflict", "the object has been modified", ""), false, true},
		"changed before the taking over": {http.StatusOK, `{"metadata":{"name":"a","uid":"u-1","resourceVersion":"9"}}`, true, true},
		"broken":                         {http.StatusInternalServerError, status(500, "InternalError", "etcdserver: no leader", ""), false, false},
		"gone":                           {http.StatusNotFound, status(404, "NotFound", "not found", ""), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s server
			a := applying(t, plan.Delete)
			if c.takeOver {
				a.TakeOver = &plan.TakeOver{}
			}
			result := applyOne(t, s.writer(t, apply.Options{}, writeJSON(c.code, c.body)), a)
			if result.Err == nil || apply.Conflict(result.Err) != c.conflict {
				t.Errorf("got %v", result.Err)
			}
			if len(s.requests) != 1 || strings.HasPrefix(s.requests[0], "DELETE") {
				t.Errorf("sent %q", s.requests)
			}
		})
	}
}

// Every write has dryRun where the server looks for it.
func TestADryRunStoresNothing(t *testing.T) {
	for _, verb := range []plan.Verb{plan.Create, plan.Update, plan.Apply, plan.Delete} {
		var s server
		a := applying(t, verb)
		a.TakeOver = &plan.TakeOver{From: []plan.FormerManager{{Name: "mine"}}}
		w := s.writer(t, apply.Options{DryRun: true}, writeJSON(http.StatusOK, strings.Replace(stored, `"uid"`,
			`"managedFields":[{"manager":"mine","operation":"Update","fieldsV1":{"f:data":{}}}],"uid"`, 1)))
		if result := applyOne(t, w, a); result.Err != nil {
			t.Errorf("%s: %v", verb, result.Err)
		}
		for _, request := range s.requests {
			said := "dryRun=All"
			if strings.HasPrefix(request, "DELETE") {
				said = `"dryRun":["All"]` // A deletion has it in the body.
			}
			if !strings.HasPrefix(request, "GET") && strings.Count(request, said) != 1 {
				t.Errorf("%s: sent %s", verb, request)
			}
		}
	}
}

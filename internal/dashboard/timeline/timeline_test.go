package timeline

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// failedAt is a run so many seconds after noon that failed with a text.
func failedAt(second int, text string, of *inspect.Fault, steps ...inspect.Step) inspect.Run {
	return inspect.Run{
		ID: uint64(second), Process: "setpoint", Controller: "cc/webs", Began: noon.Add(time.Duration(second) * time.Second),
		Outcome: "failed", Error: text, Fault: of, Steps: steps,
	}
}

// Fault U1, fault U5: retries are one entry, whatever number is in their error, and the
// first of them is known by its cause.
func TestEqualRetriesAreGrouped(t *testing.T) {
	broken := &inspect.Fault{Kind: failure.HookDisconnected}
	event := inspect.Step{Event: &hook.Event{Type: "Warning", Reason: "HookFailed", Message: "sync hook, former revision: no"}}
	status := inspect.Step{Write: &inspect.Write{Verb: "update", Part: "status"}}
	created := inspect.Step{Write: &inspect.Write{Verb: "create", Object: object.Ref{Name: "a"}}}
	refused := inspect.Step{Write: &inspect.Write{Verb: "create", Object: object.Ref{Name: "a"}, Error: "quota"}}
	first := failedAt(1, "no", nil)
	first.Causes = []string{"hook changed"}
	other := failedAt(4, "no", nil)
	other.Controller = "dc/labels"
	synced := inspect.Run{Process: "setpoint", Controller: "cc/webs", Outcome: "synced"}
	for name, c := range map[string]struct {
		runs []inspect.Run // The latest first.
		want string
	}{
		"same text":         {[]inspect.Run{failedAt(3, "no", nil), failedAt(2, "no", nil), first}, "3x1"},
		"another number":    {[]inspect.Run{failedAt(3, "EOF 127.0.0.1:4711", nil), failedAt(2, "EOF 127.0.0.1:4712", nil)}, "2x2"},
		"on the way":        {[]inspect.Run{failedAt(3, "EOF", broken), failedAt(2, "reset by peer", broken)}, "2x2"},
		"another text":      {[]inspect.Run{failedAt(3, "no", nil), failedAt(2, "other", nil)}, "1x3 1x2"},
		"another fault":     {[]inspect.Run{failedAt(3, "no", broken), failedAt(2, "no", nil)}, "1x3 1x2"},
		"another path":      {[]inspect.Run{failedAt(3, "no", &inspect.Fault{Kind: failure.HookInvalidResponse, Path: "a"}), failedAt(2, "no", &inspect.Fault{Kind: failure.HookInvalidResponse, Path: "b"})}, "1x3 1x2"},
		"events":            {[]inspect.Run{failedAt(3, "no", nil), failedAt(2, "no", nil, event)}, "2x2"},
		"its own status":    {[]inspect.Run{failedAt(3, "no", nil, status), failedAt(2, "no", nil, status)}, "2x2"},
		"refused writes":    {[]inspect.Run{failedAt(3, "no", nil, refused), failedAt(2, "no", nil, refused)}, "2x2"},
		"wrote something":   {[]inspect.Run{failedAt(3, "no", nil), failedAt(2, "no", nil, created), failedAt(1, "no", nil)}, "1x3 1x2 1x1"},
		"another between":   {[]inspect.Run{failedAt(5, "no", nil), other, failedAt(2, "no", nil)}, "2x2 1x4"},
		"recovered between": {[]inspect.Run{failedAt(5, "no", nil), synced, failedAt(2, "no", nil)}, "1x5 1x0 1x2"},
	} {
		got := ""
		for _, e := range Entries(c.runs) {
			got += fmt.Sprintf(" %dx%d", e.Times(), e.First().ID)
		}
		if got != " "+c.want {
			t.Errorf("%s: got%s, want %s", name, got, c.want)
		}
	}
	entry := Entries([]inspect.Run{failedAt(3, "no", nil), first})[0]
	if entry.Since() != first.Began || entry.First().Causes[0] != "hook changed" {
		t.Errorf("%+v", entry)
	}
}

func call(revision string, number int64, previous bool) inspect.Step {
	return inspect.Step{Call: &inspect.Call{Name: "sync", Revision: &record.Revision{Name: revision, Number: number, Previous: previous}}}
}

// Fault U1: during a rolling update a run calls the hook once for each revision of the
// parent. Each request is compared with the last one about the same revision.
func TestComparableByRevision(t *testing.T) {
	// The former revision responded first.
	steps := []inspect.Step{call("a", 1, true), call("b", 2, false)}
	if hookCall, at := MainCall(steps); at != 1 || hookCall.Revision.Previous {
		t.Errorf("the main request is at step %d: %+v", at, hookCall)
	}
	before := []inspect.Step{call("a", 1, false)}
	for name, c := range map[string]struct {
		steps []inspect.Step
		as    inspect.Step
		want  int
	}{
		"latest with latest":              {steps, call("b", 2, false), 1},
		"former with the same former":     {steps, call("a", 1, true), 0},
		"former with what was the latest": {before, call("a", 1, true), 0},
		"edit, latest with latest":        {before, call("b", 2, false), 0},
		"another former":                  {steps, call("c", 0, true), -1},
	} {
		got := inspect.LastComparable(c.steps, c.as.Call)
		if c.want < 0 && got != nil || c.want >= 0 && got != c.steps[c.want].Call {
			t.Errorf("%s: compared with %+v", name, got)
		}
	}
	if got := RevisionLabel(steps, steps[0].Call) + ", " + RevisionLabel(steps, steps[1].Call); got != "former revision 1, latest revision 2" {
		t.Error(got)
	}
	if got := RevisionLabel(before, before[0].Call); got != "" {
		t.Errorf("one revision alone is labelled %q", got)
	}
}

// Fault U1: a second call in a run follows from a write only where there was one.
func TestRepeatLabel(t *testing.T) {
	wrote := inspect.Step{Write: &inspect.Write{Verb: "create"}}
	for name, c := range map[string]struct {
		between []inspect.Step
		first   inspect.Step
		want    string
	}{
		"another revision": {nil, call("a", 1, true), ""},
		"a write":          {[]inspect.Step{wrote}, call("b", 2, false), "again, after its writes"},
		"nothing":          {nil, call("b", 2, false), "again"},
		"no difference":    {[]inspect.Step{{Write: &inspect.Write{Unchanged: true}}}, call("b", 2, false), "again"},
		"a refusal":        {[]inspect.Step{{Write: &inspect.Write{Error: "no"}}}, call("b", 2, false), "again"},
	} {
		steps := append(append([]inspect.Step{c.first}, c.between...), call("b", 2, false))
		if got := RepeatLabel(steps, len(steps)-1); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Fault U3: a denial says what was denied, and that nothing was stored.
func TestDecisions(t *testing.T) {
	reviewed := func(outcome string, r inspect.Review) inspect.Run {
		return inspect.Run{Outcome: outcome, Steps: []inspect.Step{{Call: &inspect.Call{Name: "check", Review: &r}}}}
	}
	for _, c := range []struct {
		run    inspect.Run
		want   string
		stored bool
	}{
		{reviewed("denied", inspect.Review{Operation: "create", Denied: true}), "Creation denied", false},
		{reviewed("denied", inspect.Review{Operation: "create", Denied: true, DryRun: true}), "Creation (dry run) denied", true},
		{reviewed("denied", inspect.Review{Operation: "delete", Denied: true}), "Deletion denied", true},
		{reviewed("mutated", inspect.Review{Operation: "update"}), "Update mutated and allowed", true},
		{reviewed("allowed", inspect.Review{Operation: "create"}), "Creation allowed", true},
		{inspect.Run{Outcome: "synced", Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync"}}}}, "", true},
	} {
		if got := Decision(&c.run); got != c.want || NeverStored([]inspect.Run{c.run, {}}) == c.stored {
			t.Errorf("%+v: %q, never stored: %v", c.run, got, NeverStored([]inspect.Run{c.run}))
		}
	}
}

// A webhook that allows the request after the one that denies it, and a webhook that denies no longer.
func TestNeverStored(t *testing.T) {
	reviewed := func(by, outcome string) inspect.Run {
		return inspect.Run{Controller: by, Outcome: outcome, Steps: []inspect.Step{{Call: &inspect.Call{
			Name: "check", Review: &inspect.Review{Operation: "create", Denied: outcome == inspect.ReviewDenied}}}}}
	}
	denied, ran := reviewed("a", inspect.ReviewDenied), inspect.Run{Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync"}}}}
	for name, c := range map[string]struct {
		runs []inspect.Run
		want bool
	}{
		"no run":                   {nil, false},
		"another one allowed it":   {[]inspect.Run{reviewed("b", inspect.ReviewAllowed), denied}, true},
		"the same one allowed it":  {[]inspect.Run{reviewed("a", inspect.ReviewAllowed), denied}, false},
		"stored after the denial":  {[]inspect.Run{ran, denied}, false},
		"stored before the denial": {[]inspect.Run{denied, ran}, true},
	} {
		if got := NeverStored(c.runs); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Fault U1: the first run about a new object was triggered by its creation, not by a change.
func TestIsCreation(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hookCall := func(member, created string, previous uint64) *inspect.Run {
		request := `{"` + member + `":{"metadata":{"creationTimestamp":"` + created + `"}}}`
		return &inspect.Run{Began: began, Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync", Previous: previous, Request: json.RawMessage(request)}}}}
	}
	update := hookCall("object", "2026-03-01T12:00:00Z", 0)
	update.Steps[0].Call.Name, update.Steps[0].Call.Reason = "resized", "Update"
	for name, c := range map[string]struct {
		run  *inspect.Run
		want bool
	}{
		"an update":        {update, false},
		"a parent":         {hookCall("parent", "2026-03-01T11:59:59Z", 0), true},
		"of a decorator":   {hookCall("object", "2026-03-01T12:00:00Z", 0), true},
		"a clock ahead":    {hookCall("object", "2026-03-01T12:00:02Z", 0), true},
		"called before":    {hookCall("parent", "2026-03-01T11:59:59Z", 7), false},
		"an old one":       {hookCall("parent", "2026-03-01T11:00:00Z", 0), false},
		"no request":       {&inspect.Run{Began: began, Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync"}}}}, false},
		"nothing asked":    {&inspect.Run{Began: began}, false},
		"not known of it":  {hookCall("related", "2026-03-01T12:00:00Z", 0), false},
		"a broken request": {&inspect.Run{Began: began, Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync", Request: json.RawMessage(`{"parent":7}`)}}}}, false},
	} {
		if got := IsCreation(c.run); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestIncidents(t *testing.T) {
	failed := func(id uint64, attempt int) inspect.Run {
		r := failedAt(int(id), "no", nil)
		r.Attempt = attempt
		return r
	}
	synced := func(id uint64) inspect.Run {
		return inspect.Run{ID: id, Process: "setpoint", Controller: "cc/webs", Outcome: "synced"}
	}
	other := synced(9)
	other.Controller = "dc/labels"
	replaced := synced(9)
	replaced.Object.UID = "former"
	review := synced(9)
	review.Steps = []inspect.Step{{Call: &inspect.Call{Review: &inspect.Review{}}}}
	postponed := synced(9)
	postponed.Outcome = "postponed"
	for name, c := range map[string]struct {
		runs        []inspect.Run // The latest first.
		first, good uint64
	}{
		"one failure":      {[]inspect.Run{failed(3, 0), synced(2), failed(1, 0)}, 3, 2},
		"several":          {[]inspect.Run{failed(5, 2), failed(4, 1), postponed, failed(3, 0), synced(2)}, 3, 2},
		"other runs":       {[]inspect.Run{failed(4, 1), other, review, failed(3, 0), synced(2)}, 3, 2},
		"always failed":    {[]inspect.Run{failed(4, 1), failed(3, 0)}, 3, 0},
		"former object":    {[]inspect.Run{failed(4, 1), failed(3, 0), replaced}, 3, 0},
		"no longer known":  {[]inspect.Run{failed(40, 39), failed(39, 38)}, 0, 0},
		"nothing is known": {nil, 0, 0},
	} {
		state := inspect.ObjectState{Ref: object.Ref{UID: "u"}, Process: "setpoint", Controller: "cc/webs"}
		found := IncidentOf(c.runs, &state)
		var first, good uint64
		if found.FirstFailure != nil {
			first = found.FirstFailure.ID
		}
		if found.LastGood != nil {
			good = found.LastGood.ID
		}
		if first != c.first || good != c.good {
			t.Errorf("%s: first failure %d, last good %d", name, first, good)
		}
	}
}

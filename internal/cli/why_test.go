package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func team() object.Ref {
	return object.Ref{Kind: object.Kind{Group: "example.com", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true}, Namespace: "shop", Name: "red"}
}

func pod(name string) object.Ref {
	return object.Ref{Kind: object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: name}
}

// request is a hook request with a pod in a phase.
func request(phase string) json.RawMessage {
	return json.RawMessage(`{"parent": {"apiVersion": "example.com/v1", "kind": "Team", "metadata": {"name": "red", "namespace": "shop"}},
		"children": {"Pod.v1": {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "status": {"phase": "` + phase + `"}}}}}`)
}

const wantWhyText = `Team shop/red is failing, 2 times in a row since 11:59:50.
  write Pod shop/b: pods "b" is forbidden: quota\u001b[31m
  Next retry in 8s, at 12:00:08.
  Managed by x/teams in the process setpoint, with 1 child.
    Pod shop/a  Current

Reconcile history, newest last:

11:59:58.000  child Pod shop/a changed, and the object changed
  (3 runs without changes before it)
  called sync
    changed since the call at 11:59:50.000:
      Pod shop/a changed
        status.phase: Pending → Running
    response after 20ms; new in it:
      status.ready: 0 → 1
  planned to delete Pod shop/c (not desired any more), not executed in this run
  updated Pod shop/a (spec.image differs) in 5ms
    spec.image: old → new
  could not create Pod shop/b (missing): pods "b" is forbidden
  Event Warning SyncFailed
  failed after 30ms, for the 2nd time in a row
  3 more identical failures, the last at 11:59:59.000; next retry at 12:00:08

What to do:
  - If the error names a missing permission, grant it to the ServiceAccount that the error names: that of the controller, or of this process. If it names a ServiceAccount that does not exist, create it. If it names a quota or policy, raise the quota or comply with the policy.
  - to retry now: ` + "`setpoint reconcile x/teams team.example.com/red -n shop`" + `
`

// Fault G8: the last hint works each time.
func TestWhyText(t *testing.T) {
	refused := `pods "b" is forbidden`
	before := inspect.Run{ID: 1, Began: noon.Add(-10 * time.Second), Steps: []inspect.Step{
		{Call: &inspect.Call{Name: "sync", Request: request("Pending"), Response: json.RawMessage(`{"status": {"ready": 0}}`)}},
	}}
	run := inspect.Run{
		ID: 2, Controller: "x/teams", Causes: []string{"child Pod shop/a changed", "the object changed"}, Noops: 3, Attempt: 1,
		Began: noon.Add(-2 * time.Second), Took: 30 * time.Millisecond, Outcome: "failed", Error: "write Pod shop/b: " + refused,
		Steps: []inspect.Step{
			{Took: 20 * time.Millisecond, Call: &inspect.Call{Name: "sync", Previous: 1, Request: request("Running"), Response: json.RawMessage(`{"status": {"ready": 1}}`)}},
			{Plan: &inspect.Planned{Unchanged: 1, Actions: []inspect.Action{
				{Verb: "update", Object: pod("a"), Reason: "spec.image differs", Changes: []inspect.Change{{Path: "spec.image", From: json.RawMessage(`"old"`), To: json.RawMessage(`"new"`)}}},
				{Verb: "create", Object: pod("b"), Reason: "missing"},
				{Verb: "delete", Object: pod("c"), Reason: "not desired any more"},
			}}},
			{Took: 5 * time.Millisecond, Write: &inspect.Write{Verb: "update", Object: pod("a")}},
			{Write: &inspect.Write{Verb: "create", Object: pod("b"), Error: refused}},
			{Event: &inspect.Event{Type: "Warning", Reason: "SyncFailed", Message: "write Pod shop/b: " + refused}},
		},
	}
	a := explanation{
		Object: team(),
		States: []visibleState{{ObjectState: inspect.ObjectState{
			Ref: team(), Controller: "x/teams", Process: "setpoint", State: inspect.StateFailing, Attempts: 2, FailingSince: noon.Add(-10 * time.Second), Next: noon.Add(8 * time.Second),
			Error: "write Pod shop/b: " + refused + ": quota\x1b[31m", Fault: &inspect.Fault{Kind: failure.Forbidden}, ChildStates: []inspect.Child{{Ref: pod("a"), Health: "Current"}},
		}}},
	}
	var out bytes.Buffer
	printer{out: &out, now: noon}.printState(a.States[0])
	out.WriteString("\nReconcile history, newest last:\n\n")
	// Fault U5: retries are one line below the run that began to fail.
	latest := inspect.Run{Controller: run.Controller, Began: noon.Add(-time.Second), Outcome: "failed", Next: noon.Add(8 * time.Second)}
	printer{out: &out, now: noon}.printEntry(&historyEntry{
		Entry: timeline.Entry{Run: latest, Earlier: []inspect.Run{latest, latest, run}},
		first: &runDetails{Run: run, before: map[uint64]inspect.Run{1: before}},
	})
	printer{out: &out, now: noon}.printAdvice(a)
	if diff := cmp.Diff(wantWhyText, out.String()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// A call of other code is not the same as the one before, although it has the same request.
func TestWhyTellsChangedCode(t *testing.T) {
	call := func(digest, version string) *inspect.Call {
		return &inspect.Call{Name: "sync", Version: version, Request: request("Running"), Code: &inspect.Code{Digest: digest, Since: noon}}
	}
	source := func(text string) *inspect.Call {
		return &inspect.Call{Name: "sync", Request: request("Running"), Code: &inspect.Code{Digest: text, Since: noon, Source: text}}
	}
	unseen := func(fault string) *inspect.Call {
		return &inspect.Call{Name: "sync", Request: request("Running"), Error: fault}
	}
	for want, c := range map[string][2]*inspect.Call{
		"    the same request as before; Setpoint cannot see the hook's code\n": {unseen(""), unseen("no")},
		"    the code of sync changed, at 12:00:00:\n        line\n      - old\n      + new\n    nothing else changed since the call before\n": {
			source("line\nold\n"), source("line\nnew\n"),
		},
		"    the same request as before\n": {call("a", ""), call("a", "")},
		"    the code of sync changed, at 12:00:00\n    nothing else changed since the call before\n":     {call("a", ""), call("b", "")},
		"    the version of the hooks changed: v1 → v2\n    nothing else changed since the call before\n": {call("a", "v1"), call("a", "v2")},
	} {
		var out bytes.Buffer
		printer{out: &out, now: noon}.printRequestChanges(c[1], c[0], "before")
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}

// Where a name is taken a retry cannot help, so none is proposed.
func TestNoRetryWhereANameIsTaken(t *testing.T) {
	taken := inspect.ObjectState{Ref: team(), Controller: "x/teams", State: inspect.StateFailing, Fault: &inspect.Fault{Kind: failure.NameTaken}}
	if all := adviceOn(taken); len(all) != 1 || !strings.Contains(all[0], "a name of its own") {
		t.Errorf("advised %q", all)
	}
}

// Fault U3: a review says which webhook of which controller decided, why, and what it
// changed, and of an object whose creation was denied that it does not exist.
func TestWhyReviews(t *testing.T) {
	review := func(second int, outcome, by string, r inspect.Review) historyEntry {
		run := inspect.Run{Controller: "admissioncontroller.setpoint.dev/pods", Causes: []string{by}, Began: noon.Add(time.Duration(second) * time.Second), Outcome: outcome,
			Steps: []inspect.Step{{Took: 2 * time.Millisecond, Call: &inspect.Call{Name: "check", Review: &r}}}}
		return historyEntry{Entry: timeline.Entry{Run: run}, first: &runDetails{Run: run}}
	}
	var out bytes.Buffer
	printer{out: &out, now: noon}.print(explanation{Object: pod("a"), neverStored: true, entries: []historyEntry{
		review(-2, "mutated", "create by anna", inspect.Review{Operation: "create", Warnings: []string{"old"}, Changes: []inspect.Change{{Path: "spec.a", To: json.RawMessage(`1`)}}}),
		review(-1, "denied", "create by anna", inspect.Review{Operation: "create", Denied: true, Message: "no digest", Reason: "Invalid"}),
	}}, true)
	const want = `Pod shop/a does not exist: its creation was denied.

Reconcile history, newest last:

11:59:58.000  create by anna
  called the webhook check of admissioncontroller.setpoint.dev/pods
    changed after 2ms:
      spec.a set to 1
    warning: old
  creation mutated and allowed

11:59:59.000  create by anna
  called the webhook check of admissioncontroller.setpoint.dev/pods
    denied after 2ms: no digest (Invalid)
  creation denied
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// Fault U1: each entry says which controller it is of, not that the controller made the
// change; children that wait for their turn are unchanged, not up to date; and of a child
// that is deleted its fields are no change.
func TestWhySeveralControllers(t *testing.T) {
	created := json.RawMessage(`{"parent":{"metadata":{"creationTimestamp":"2026-03-01T11:59:57Z"}}}`)
	run := inspect.Run{Controller: "x/teams", Causes: []string{"the object changed"}, Began: noon.Add(-2 * time.Second), Took: time.Second, Outcome: "synced", Steps: []inspect.Step{
		{Took: time.Millisecond, Call: &inspect.Call{Name: "sync", Request: created}},
		{Plan: &inspect.Planned{Unchanged: 3}},
		{Plan: &inspect.Planned{Actions: []inspect.Action{
			{Verb: "delete", Object: pod("a"), Reason: "no longer desired", Changes: []inspect.Change{{Path: "spec.image", From: json.RawMessage(`"old"`)}}},
		}}},
		{Took: time.Millisecond, Write: &inspect.Write{Verb: "delete", Object: pod("a")}},
	}}
	var out bytes.Buffer
	printer{out: &out, now: noon, several: true}.printRun(&runDetails{Run: run})
	const want = `11:59:58.000  x/teams: the object was created
  called sync
    response after 1ms
  3 children unchanged
  deleted Pod shop/a (no longer desired) in 1ms
  done after 1s
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// Where the timeline is not, it is said why, and who has it.
func TestWhyStandby(t *testing.T) {
	const caveat = "The process setpoint is a standby; setpoint-1 is the leader and has the history."
	var out bytes.Buffer
	printer{out: &out, now: noon}.print(explanation{
		Object: team(), stored: &object.Object{}, Caveats: []string{caveat},
		States: []visibleState{{ObjectState: inspect.ObjectState{Ref: team(), Controller: "x/teams", Process: "setpoint", State: inspect.StateUnknown}, Standby: true}},
	}, true)
	if got := out.String(); !strings.Contains(got, "its state is not known here") || !strings.HasSuffix(got, caveat+"\n") {
		t.Errorf("told %s", got)
	}
}

// If no process reconciles an object because a watch is missing, the output does not
// say that another process does.
func TestWhyUnmanaged(t *testing.T) {
	var out bytes.Buffer
	printer{out: &out, now: noon}.printState(visibleState{ObjectState: inspect.ObjectState{Ref: team(), Controller: "x/teams", Process: "setpoint", State: inspect.StateUnknown}})
	const want = "Team shop/red has not been reconciled here yet.\n  Its controller starts once all its watches are synced."
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "another replica") {
		t.Errorf("told %s", got)
	}
}

func TestControlCharactersAreEscaped(t *testing.T) {
	hostile := "a\x1b[2J\u009b31m\u202e\nb\tc\x7f"
	var tableText, yamlText, jsonText bytes.Buffer
	rows := []row{{cells: []string{hostile}, key: "a"}}
	for _, write := range []error{
		(&table{headers: []string{"NAME"}}).write(&tableText, rows),
		encode(&yamlText, asYAML, map[string]string{"name": hostile}),
		encode(&jsonText, asJSON, map[string]string{"name": hostile}),
	} {
		if write != nil {
			t.Fatal(write)
		}
	}
	for _, text := range []string{tableText.String(), yamlText.String(), jsonText.String(), clean(hostile)} {
		if strings.ContainsAny(text, "\x1b\u009b\u202e\x7f") {
			t.Errorf("%q", text)
		}
	}
	var read map[string]string
	if err := json.Unmarshal(jsonText.Bytes(), &read); err != nil || read["name"] != hostile {
		t.Errorf("JSON says %q, %v", read["name"], err)
	}
}

// Fault U12: an error that is longer than the line of a terminal wrapped, and tore the table.
func TestTablesFitTerminal(t *testing.T) {
	rows := []row{{key: "a", cells: []string{"s-500", "Failing", "sync hook: POST http://lab.lab/sync: returned 500"}}, {key: "b", cells: []string{"ö", "Synced", ""}}}
	for width, want := range map[int]string{
		0:  "NAME    STATE     ERROR\ns-500   Failing   sync hook: POST http://lab.lab/sync: returned 500\nö       Synced    \n",
		48: "NAME    STATE     ERROR\ns-500   Failing   sync hook: POST http://lab.la…\nö       Synced    \n",
		20: "NAME    STATE     ERROR\ns-500   Failing   sync hook: POST htt…\nö       Synced    \n",
	} {
		var out bytes.Buffer
		if err := (&table{headers: []string{"NAME", "STATE", "ERROR"}, width: width}).write(&out, rows); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(out.String(), "Synced\n", "Synced    \n"); got != want {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
}

func TestTablesWriteChangedRows(t *testing.T) {
	var out bytes.Buffer
	watched := &table{headers: []string{"NAME", "STATE"}}
	for _, rows := range [][]row{
		{{key: "a", version: "Synced", cells: []string{"a", "Synced"}}, {key: "b", version: "Synced", cells: []string{"b", "Synced"}}},
		{{key: "a", version: "Synced", cells: []string{"a", "Synced"}}, {key: "b", version: "Failing", cells: []string{"b", "Failing"}}},
	} {
		if err := watched.write(&out, rows); err != nil {
			t.Fatal(err)
		}
	}
	want := "NAME   STATE\na      Synced\nb      Synced\nb   Failing\n"
	if out.String() != want {
		t.Errorf("written:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestControllerLookup(t *testing.T) {
	composite := inspect.Controller{Name: "compositecontroller.setpoint.dev/teams"}
	program := inspect.Controller{Name: "shop/team"}
	for _, test := range []struct {
		word string
		of   inspect.Controller
		want bool
	}{
		{"compositecontroller.setpoint.dev/teams", composite, true},
		{"teams", composite, true},
		{"decoratorcontroller/teams", composite, false},
		{"compositecontroller/other", composite, false},
		{"team", composite, false},
		{"shop/team", program, true},
		{"team", program, true},
		{"cc/team", program, false},
	} {
		if got := matchesController(test.word, test.of); got != test.want {
			t.Errorf("%q means %s: %v", test.word, test.of.Name, got)
		}
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 300 * time.Millisecond: "300ms", 90 * time.Second: "90s", 5 * time.Minute: "5m", 3 * time.Hour: "3h", 72 * time.Hour: "3d",
	} {
		if got := roundDuration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	if got := in(noon.Add(200*time.Millisecond), noon); got != "in 1s" {
		t.Errorf("%q, want in 1s", got)
	}
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 11: "11th", 12: "12th", 22: "22nd", 113: "113th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
}

// The record of handled states is long and says nothing to users.
func TestWhyLeavesOutRecords(t *testing.T) {
	record := inspect.Change{Path: `metadata.annotations["setpoint.dev/handled-by-handlercontroller-rates"]`, To: json.RawMessage(`"{}"`)}
	size := inspect.Change{Path: "spec.size", From: json.RawMessage("1"), To: json.RawMessage("2")}
	for full, want := range map[bool]int{false: 1, true: 2} {
		var out strings.Builder
		printer{out: &out, full: full}.changes(0, []inspect.Change{size, record})
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("full %v: %d lines: %s", full, got, &out)
		}
	}
}

package why

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// request is a hook request with a pod in a phase.
func request(phase string) json.RawMessage {
	return json.RawMessage(`{"parent": {"apiVersion": "example.com/v1", "kind": "Team", "metadata": {"name": "red", "namespace": "shop"}},
		"children": {"Pod.v1": {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "status": {"phase": "` + phase + `"}}}}}`)
}

const wantWhyText = `Team shop/red is failing, 2 times in a row since 11:59:50.
  write Pod shop/b: pods "b" is forbidden: quota\u001b[31m
  WriteFailed: https://github.com/setpoint-dev/setpoint/blob/main/docs/glossary.md#writefailed
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
  failed after 30ms, at attempt 2
  3 more identical failures, the last at 11:59:59.000; next retry at 12:00:08

What to do:
  - If the error names a missing permission, grant it to the ServiceAccount that the error names: that of the controller, or of this process. If it names a ServiceAccount that does not exist, create it. If it names a quota or policy, raise the quota or comply with the policy.
  - to retry now: ` + "`setpoint reconcile x/teams team.example.com/red -n shop`" + `
`

// Fault G8: the last hint works each time.
func TestWhyText(t *testing.T) {
	refused := `pods "b" is forbidden`
	before := inspect.Run{ID: 1, Began: clitest.Noon().Add(-10 * time.Second), Steps: []inspect.Step{
		{Call: &inspect.Call{Name: "sync", Request: request("Pending"), Response: json.RawMessage(`{"status": {"ready": 0}}`)}},
	}}
	run := inspect.Run{
		ID: 2, Controller: "x/teams", Causes: []string{"child Pod shop/a changed", "the object changed"}, Noops: 3, Attempt: 1,
		Began: clitest.Noon().Add(-2 * time.Second), Took: 30 * time.Millisecond, Outcome: "failed", Error: "write Pod shop/b: " + refused,
		Steps: []inspect.Step{
			{Took: 20 * time.Millisecond, Call: &inspect.Call{Name: "sync", Previous: 1, Request: request("Running"),
				Response: json.RawMessage(`{"status": {"ready": 1}}`)}},
			{Plan: &record.Planned{Unchanged: 1, Actions: []inspect.Action{
				{Verb: "update", Object: clitest.Pod("a"), Reason: "spec.image differs",
					Changes: []inspect.Change{{Path: "spec.image", From: json.RawMessage(`"old"`), To: json.RawMessage(`"new"`)}}},
				{Verb: "create", Object: clitest.Pod("b"), Reason: "missing"},
				{Verb: "delete", Object: clitest.Pod("c"), Reason: "not desired any more"},
			}}},
			{Took: 5 * time.Millisecond, Write: &inspect.Write{Verb: "update", Object: clitest.Pod("a")}},
			{Write: &inspect.Write{Verb: "create", Object: clitest.Pod("b"), Error: refused}},
			{Event: &hook.Event{Type: "Warning", Reason: "SyncFailed", Message: "write Pod shop/b: " + refused}},
		},
	}
	a := explanation{
		Object: clitest.Team(),
		States: []client.VisibleState{{ObjectState: inspect.ObjectState{
			Ref: clitest.Team(), Controller: "x/teams", Process: "setpoint", State: inspect.StateFailing, Attempts: 2,
			FailingSince: clitest.Noon().Add(-10 * time.Second), Next: clitest.Noon().Add(8 * time.Second),
			Error: "write Pod shop/b: " + refused + ": quota\x1b[31m", Fault: &inspect.Fault{Kind: failure.Forbidden}, Reason: "WriteFailed",
			ChildStates: []inspect.Child{{Ref: clitest.Pod("a"), Health: "Current"}},
		}}},
	}
	var out bytes.Buffer
	printer{out: &out, now: clitest.Noon()}.printState(a.States[0])
	out.WriteString("\nReconcile history, newest last:\n\n")
	// Fault U5: retries are one line below the run that began to fail.
	latest := inspect.Run{Controller: run.Controller, Began: clitest.Noon().Add(-time.Second), Outcome: "failed",
		Next: clitest.Noon().Add(8 * time.Second)}
	printer{out: &out, now: clitest.Noon()}.printEntry(&historyEntry{
		Entry: timeline.Entry{Run: latest, Earlier: []inspect.Run{latest, latest, run}},
		first: &runDetails{Run: run, before: map[uint64]inspect.Run{1: before}},
	})
	printer{out: &out, now: clitest.Noon()}.printAdvice(a)
	if diff := cmp.Diff(wantWhyText, out.String()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// A call of other code is not the same as the one before, although it has the same request.
func TestWhyTellsChangedCode(t *testing.T) {
	call := func(digest, version string) *inspect.Call {
		return &inspect.Call{Name: "sync", Version: version, Request: request("Running"), Code: &inspect.Code{Digest: digest, Since: clitest.Noon()}}
	}
	source := func(text string) *inspect.Call {
		return &inspect.Call{Name: "sync", Request: request("Running"), Code: &inspect.Code{Digest: text, Since: clitest.Noon(), Source: text}}
	}
	unseen := func(fault string) *inspect.Call {
		return &inspect.Call{Name: "sync", Request: request("Running"), Error: fault}
	}
	for want, c := range map[string][2]*inspect.Call{
		"    the same request as before; Setpoint cannot see the hook's code\n":                                                               {unseen(""), unseen("no")},
		"    the code of sync changed, at 12:00:00\n        line\n      - old\n      + new\n    nothing else changed since the call before\n": {source("line\nold\n"), source("line\nnew\n")},
		"    the same request as before\n": {call("a", ""), call("a", "")},
		"    the code of sync changed, at 12:00:00\n    nothing else changed since the call before\n":     {call("a", ""), call("b", "")},
		"    the version of the hooks changed: v1 → v2\n    nothing else changed since the call before\n": {call("a", "v1"), call("a", "v2")},
	} {
		var out bytes.Buffer
		printer{out: &out, now: clitest.Noon()}.printRequestChanges(c[1], c[0], "before")
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}

// Where a name is taken a retry cannot help, so none is proposed.
func TestNoRetryWhereANameIsTaken(t *testing.T) {
	taken := inspect.ObjectState{Ref: clitest.Team(), Controller: "x/teams", State: inspect.StateFailing,
		Fault: &inspect.Fault{Kind: failure.NameTaken}}
	if all := adviceOn(taken); len(all) != 1 || !strings.Contains(all[0], "a name of its own") {
		t.Errorf("advised %q", all)
	}
}

// Fault U3: a review says which webhook of which controller decided, why, and what it
// changed, and of an object whose creation was denied that it does not exist.
func TestWhyReviews(t *testing.T) {
	review := func(second int, outcome, by string, r inspect.Review) historyEntry {
		run := inspect.Run{Controller: "admissioncontroller.setpoint.dev/pods", Causes: []string{by},
			Began: clitest.Noon().Add(time.Duration(second) * time.Second), Outcome: outcome,
			Steps: []inspect.Step{{Took: 2 * time.Millisecond, Call: &inspect.Call{Name: "check", Review: &r}}}}
		return historyEntry{Entry: timeline.Entry{Run: run}, first: &runDetails{Run: run}}
	}
	var out bytes.Buffer
	printer{out: &out, now: clitest.Noon()}.print(explanation{Object: clitest.Pod("a"), neverStored: true, entries: []historyEntry{
		review(-2, "mutated", "create by anna", inspect.Review{Operation: "create", Warnings: []string{"old"},
			Changes: []inspect.Change{{Path: "spec.a", To: json.RawMessage(`1`)}}}),
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
	run := inspect.Run{Controller: "x/teams", Causes: []string{"the object changed"}, Began: clitest.Noon().Add(-2 * time.Second),
		Took: time.Second, Outcome: "synced", Steps: []inspect.Step{
			{Took: time.Millisecond, Call: &inspect.Call{Name: "sync", Request: created}},
			{Plan: &record.Planned{Unchanged: 3}},
			{Plan: &record.Planned{Actions: []inspect.Action{
				{Verb: "delete", Object: clitest.Pod("a"), Reason: "no longer desired",
					Changes: []inspect.Change{{Path: "spec.image", From: json.RawMessage(`"old"`)}}},
			}}},
			{Took: time.Millisecond, Write: &inspect.Write{Verb: "delete", Object: clitest.Pod("a")}},
		}}
	var out bytes.Buffer
	printer{out: &out, now: clitest.Noon(), several: true}.printRun(&runDetails{Run: run})
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
	printer{out: &out, now: clitest.Noon()}.print(explanation{
		Object: clitest.Team(), stored: &object.Object{}, Caveats: []string{caveat},
		States: []client.VisibleState{{ObjectState: inspect.ObjectState{Ref: clitest.Team(), Controller: "x/teams", Process: "setpoint",
			State: inspect.StateUnknown}, Standby: true}},
	}, true)
	if got := out.String(); !strings.Contains(got, "its state is not known here") || !strings.HasSuffix(got, caveat+"\n") {
		t.Errorf("told %s", got)
	}
}

// If no process reconciles an object because a watch is missing, the output does not
// say that another process does.
func TestWhyUnmanaged(t *testing.T) {
	var out bytes.Buffer
	printer{out: &out, now: clitest.Noon()}.printState(client.VisibleState{ObjectState: inspect.ObjectState{Ref: clitest.Team(),
		Controller: "x/teams", Process: "setpoint", State: inspect.StateUnknown}})
	const want = "Team shop/red has not been reconciled here yet.\n  Its controller starts once all its watches are synced."
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "another replica") {
		t.Errorf("told %s", got)
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

// Fault U12: what failed is red in a history.
func TestHistoryInColor(t *testing.T) {
	var out bytes.Buffer
	printer{out: &out, color: true,
		now: clitest.Noon()}.printState(client.VisibleState{ObjectState: inspect.ObjectState{Ref: clitest.Team(),
		State: inspect.StateFailing, Error: "no\x1b[0m"}})
	if got := out.String(); !strings.HasPrefix(got, "\x1b[31mTeam shop/red is failing.\x1b[0m\n  \x1b[31mno\\u001b[0m\x1b[0m\n") {
		t.Errorf("%q", got)
	}
}

// The last way out of a deletion is named where a call of it fails, and only there.
func TestWhyNamesRelease(t *testing.T) {
	pending := &timeline.Deletion{Finalizers: []string{"setpoint.dev/x"}}
	for name, c := range map[string]struct {
		state    inspect.State
		deletion *timeline.Deletion
		says     bool
	}{
		"fails in deletion": {inspect.StateFailing, pending, true},
		"waits in deletion": {inspect.StateQueued, pending, false},
		"fails":             {inspect.StateFailing, nil, false},
	} {
		var out bytes.Buffer
		a := explanation{Deletion: c.deletion, States: []client.VisibleState{{ObjectState: inspect.ObjectState{Ref: clitest.Team(), Controller: "x/teams", State: c.state}}}}
		printer{out: &out, now: clitest.Noon()}.printAdvice(a)
		if strings.Contains(out.String(), "`setpoint release team") != c.says {
			t.Errorf("%s: %s", name, &out)
		}
	}
}

// What the user cannot get is no difference: the run says which right is missing.
func TestWhyWithoutRights(t *testing.T) {
	call := func(pods string) []inspect.Step {
		return []inspect.Step{{Call: &inspect.Call{Name: "sync", Previous: 1, Request: request("Pending"), Response: json.RawMessage(`{"children": [` + pods + `]}`)}},
			{Write: &inspect.Write{Verb: "create", Object: clitest.Pod("a")}}}
	}
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}}`
	before := inspect.Run{ID: 1, Object: clitest.Team(), Steps: call("")}
	run := redactRun(t.Context(), &client.Client{AccessReviewer: clitest.AllowedVerbs{"get teams in shop"}},
		runDetails{Run: inspect.Run{ID: 2, Causes: []string{"x"}, Object: clitest.Team(), Steps: call(pod)}, before: map[uint64]inspect.Run{1: before}})
	var out bytes.Buffer
	printer{out: &out, now: clitest.Noon()}.printRun(&run)
	const want = `  some objects have only their names here: you cannot get resource "pods" in API group "" in the namespace "shop"
  called sync
    the same request as at 0001-01-01 00:00:00.000, as far as you can get the objects
    response after 0s, the same as before, as far as you can get the objects
`
	if got := out.String(); !strings.Contains(got, want) {
		t.Errorf("said\n%s", got)
	}
}

func TestOnlyReadableIsShown(t *testing.T) {
	run := inspect.Run{Object: clitest.Team(), Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync", Request: request("Pending")}}, {Write: &inspect.Write{Object: clitest.Pod("a")}}}}
	care := inspect.ObjectState{Ref: clitest.Team(), ChildStates: []inspect.Child{{Ref: clitest.Pod("a")}, {Ref: clitest.Pod("b")}}}
	for _, test := range []struct {
		name         string
		of           clitest.AllowedVerbs
		phase, owner bool
		family       int
	}{
		{"all", clitest.AllowedVerbs{"get teams in shop", "get pods in shop"}, true, true, 2},
		{"no pods", clitest.AllowedVerbs{"get teams in shop", "get pods in other"}, false, true, 0},
		{"nothing", nil, false, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			perms := &client.Client{AccessReviewer: test.of}
			kept := runDetails{Run: run, before: map[uint64]inspect.Run{1: run}}
			shown := redactRun(t.Context(), perms, kept)
			for _, each := range []inspect.Run{shown.Run, shown.before[1]} {
				text := string(each.Steps[0].Call.Request)
				if strings.Contains(text, "Pending") != test.phase || strings.Contains(text, `"Team"`) != test.owner {
					t.Errorf("shown: %s", text)
				}
			}
			got := perms.State(t.Context(), care)
			if len(got.ChildStates) != test.family || got.Hidden != 2-test.family {
				t.Errorf("%d children, %d hidden", len(got.ChildStates), got.Hidden)
			}
		})
	}
}

package inspect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

func caseRun(call *Call) Run {
	return Run{
		ID: 7, Controller: "compositecontroller.setpoint.dev/teams", Causes: []string{"the object\nchanged"}, Began: noon,
		Object: object.Ref{Kind: object.Kind{Kind: "Team"}, Namespace: "shop", Name: "red"}, Steps: []Step{{Write: &Write{}}, {Call: call}},
	}
}

func TestCases(t *testing.T) {
	run := caseRun(&Call{
		Name:     "sync",
		Request:  json.RawMessage(`{"controller":{"kind":"C"},"parent":{"kind":"Team"},"children":{"Pod.v1":{"shop/a":{"kind":"Pod"}}},"related":{},"finalizing":false}`),
		Response: json.RawMessage(`{"status":{"a":1},"logicVersion":"v1"}`),
	})
	got, err := Cases(&run)
	const want = `# sync of Team shop/red at 2026-04-01 12:00:00: the object changed
apiVersion: test.setpoint.dev/v1alpha1
controller: compositecontroller/teams
expect:
  children: []
  status:
    a: 1
hook: sync
kind: Case
metadata:
  name: red-7-1
request:
  children:
    Pod.v1:
      shop/a:
        kind: Pod
  parent:
    kind: Team
`
	if err != nil || got != want {
		t.Errorf("%v, got\n%s", err, got)
	}
}

func TestCasesOfHandlersAndErrors(t *testing.T) {
	run := caseRun(&Call{
		Name: "Publish", Error: "no \"currency\"", Response: json.RawMessage(`{}`),
		Request: json.RawMessage(`{"controller":null,"handler":"publish","reason":"Update","object":{"kind":"Team"},"changes":[1],"owned":{},"attempt":0,"progress":null,"deleted":false,"event":null}`),
	})
	got, err := Cases(&run)
	for _, want := range []string{"hook: publish\n", "request:\n  object:\n    kind: Team\n  reason: Update\n", "expect:\n  error: no \"currency\"\n"} {
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%v, got\n%s\nwithout %q", err, got, want)
		}
	}
}

func TestNoCases(t *testing.T) {
	run := caseRun(nil)
	if _, err := Cases(&run); !errors.Is(err, ErrNoCall) {
		t.Errorf("without a call: %v", err)
	}
	for want, call := range map[string]*Call{
		"no longer in memory":        {Name: "sync", Dropped: true},
		"you cannot get all objects": {Name: "sync", Request: json.RawMessage(`{"parent":{"hidden":"you cannot get these"}}`)},
	} {
		run := caseRun(call)
		if _, err := Cases(&run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

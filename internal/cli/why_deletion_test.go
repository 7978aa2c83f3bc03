package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// historySource is a process that has seen every object.
type historySource struct{ *clitest.FakeProcess }

func (*historySource) States(context.Context, object.Ref) ([]inspect.ObjectState, error) {
	return nil, nil
}

func (*historySource) Runs(_ context.Context, ref object.Ref, _ int) ([]inspect.Run, error) {
	if ref.Name == "green" {
		began := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
		return []inspect.Run{
			{ID: 9, Controller: "x/teams", Process: "setpoint", Object: ref, Began: began.Add(time.Second), Outcome: "deleted", Causes: []string{}},
			{ID: 8, Controller: "x/teams", Process: "setpoint", Object: ref, Began: began, Outcome: "synced", Causes: []string{"the object changed"}},
		}, nil
	}
	return []inspect.Run{{ID: 7, Controller: "x/teams", Process: "setpoint", Object: ref, Began: time.Now(), Outcome: "synced", Causes: []string{"the object changed"}}}, nil
}

func (*historySource) Run(context.Context, uint64, bool) (inspect.Run, error) {
	return inspect.Run{}, failure.ErrNotFound
}

// Fault U7: a history ends with the deletion of its object.
func TestWhyEndsWithTheDeletion(t *testing.T) {
	useClusterWith(t, map[string]string{
		"/shop/teams/red": `{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red","namespace":"shop","uid":"u",
			"finalizers":["example.com/keep"],"deletionTimestamp":"2026-03-01T12:00:30Z","deletionGracePeriodSeconds":0}}`,
		"/shop/teams/blue": "", "/shop/teams/green": "",
		"/shop/teams/rose": `{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"rose","namespace":"shop","uid":"v"}}`,
	})
	serveProcess(t, &historySource{clitest.WithControllers(clitest.NewFakeProcess("setpoint"), nil)})
	gone := time.Date(2026, 3, 1, 12, 0, 31, 0, time.UTC)
	requested := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC).In(time.Now().Location()).Format("15:04:05.000")
	for line, want := range map[string]string{
		"why team/red":  requested + "  Deletion requested, waiting for the finalizer example.com/keep\n",
		"why team/blue": "\n\nDeleted\n",
		// The watch has delivered it: it has its time, and is there once.
		"why team/green":         "\n  done after 0s\n\n" + gone.In(time.Now().Location()).Format("2006-01-02 15:04:05.000") + "  Deleted\n",
		"why team/green -o json": `"deletion": {` + "\n" + `    "gone": true,` + "\n" + `    "at": "` + gone.Format(time.RFC3339) + `"` + "\n  }\n}\n",
		"why team/rose":          "done after 0s\n",
		"why team/red -o json":   `"deletion": {` + "\n" + `    "requested": "2026-03-01T12:00:30Z",` + "\n" + `    "finalizers": [` + "\n" + `      "example.com/keep"` + "\n    ]\n  }\n}\n",
		"why team/blue -o json":  `"deletion": {` + "\n" + `    "gone": true` + "\n  }\n}\n",
	} {
		if code, out, problems := invoke(t.Context(), strings.Fields(line)...); code != command.OK || !strings.HasSuffix(out, want) {
			t.Errorf("%s: %d, %s\n%s\nwant at the end\n%s", line, code, problems, out, want)
		}
	}
}

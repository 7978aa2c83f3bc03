package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// patchServer accepts patches, except of objects whose name begins with a status code.
func patchServer(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
			_, _ = io.WriteString(w, `{"status":{"userInfo":{"username":"ann"}}}`)
			return
		}
		var patch struct {
			Metadata struct{ Annotations map[string]string }
		}
		_ = json.NewDecoder(r.Body).Decode(&patch)
		value := patch.Metadata.Annotations["setpoint.dev/reconcile-at"]
		if at, by, _ := strings.Cut(value, " by "); r.Method != http.MethodPatch || at == "" || by != "ann" {
			t.Errorf("%s %s with %q", r.Method, r.URL.Path, value)
		}
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		code, reason := http.StatusOK, ""
		if _, err := fmt.Sscanf(name, "%d-%s", &code, &reason); err != nil {
			_, _ = io.WriteString(w, `{"metadata":{"name":"a"}}`)
			return
		}
		w.WriteHeader(code)
		reason = strings.TrimRight(reason, "0123456789")
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"it is %s","code":%d}`, reason, reason, code)
	}
}

func TestReconcileRequests(t *testing.T) {
	clitest.UseCluster(t, patchServer(t))
	found := must.Get((&client.ClusterFlags{}).Find()).In(t)
	many := func(name string, n int) string {
		return strings.TrimSpace(strings.Repeat(name+" ", n))
	}
	few := "f b a i c h d g e" // Printed in this order.
	aborted, abort := context.WithCancel(t.Context())
	abort()
	for name, c := range map[string]struct {
		ctx                 context.Context
		names               string
		stdout, stderr, err string
	}{
		"few":         {names: few, stdout: "Team shop/" + strings.ReplaceAll(few, " ", ": reconcile requested\nTeam shop/") + ": reconcile requested\n"},
		"deleted":     {names: "a 404-NotFound", stdout: "Team shop/a: reconcile requested\n", stderr: "warning: Team shop/404-NotFound was deleted meanwhile\n"},
		"rejected":    {names: "422-Invalid a", stdout: "Team shop/a: reconcile requested\n", stderr: "error: annotate Team shop/422-Invalid: patch teams.example.com shop/422-Invalid: it is Invalid\n", err: "1 of 2 objects requested, 1 rejected"},
		"all of many": {names: many("403-Forbidden", 12), stderr: strings.Repeat("error: annotate Team shop/403-Forbidden: patch teams.example.com shop/403-Forbidden: it is Forbidden\n", 12), err: "0 of 12 objects requested, 12 rejected"},
		"an outage":   {names: "503-ServiceUnavailable " + many("a", 9), err: "objects requested: annotate Team shop/503-ServiceUnavailable: "},
		"aborted":     {ctx: aborted, names: "a b", err: "aborted: 0 of 2 objects requested"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			perms := must.Get(client.New(found)).In(t)
			r := &processes.Session{Invocation: &command.Invocation{Stdout: &stdout, Stderr: &stderr}, Client: perms}
			var targets []client.VisibleState
			for name := range strings.FieldsSeq(c.names) {
				ref := clitest.Team()
				ref.Name = name
				targets = append(targets, client.VisibleState{ObjectState: inspect.ObjectState{Ref: ref}})
			}
			requests := newReconcileRequests(t.Context(), r, 5000)
			got := ""
			if err := requests.objects(cmp.Or(c.ctx, t.Context()), targets); err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.err) || (got == "") != (c.err == "") {
				t.Errorf("error %q, want %q", got, c.err)
			}
			if c.stdout != "" && stdout.String() != c.stdout || stderr.String() != c.stderr {
				t.Errorf("printed %q and %q, want %q and %q", &stdout, &stderr, c.stdout, c.stderr)
			}
		})
	}
}

func TestReconciled(t *testing.T) {
	before := client.VisibleState{ObjectState: inspect.ObjectState{Ran: clitest.Noon(), State: inspect.StateSynced}}
	o := requestedObject{before: before, at: clitest.Noon().Add(time.Minute)}
	later := clitest.Noon().Add(2 * time.Minute)
	for name, c := range map[string]struct {
		now  inspect.ObjectState
		want bool
	}{
		"the request is not seen yet":             {inspect.ObjectState{Ran: later, State: inspect.StateSynced}, false},
		"an earlier request":                      {inspect.ObjectState{Ran: later, ReconcileAt: clitest.Noon(), ReconciledAt: clitest.Noon(), State: inspect.StateSynced}, false},
		"not queued yet":                          {inspect.ObjectState{Ran: clitest.Noon(), ReconcileAt: o.at, State: inspect.StateSynced}, false},
		"a retry that began before the request":   {inspect.ObjectState{Ran: later, ReconcileAt: o.at, State: inspect.StateFailing}, false},
		"queued again":                            {inspect.ObjectState{Ran: later, ReconcileAt: o.at, ReconciledAt: o.at, State: inspect.StateQueued}, false},
		"synced":                                  {inspect.ObjectState{Ran: later, ReconcileAt: o.at, ReconciledAt: o.at, State: inspect.StateSynced}, true},
		"failing":                                 {inspect.ObjectState{Ran: later, ReconcileAt: o.at, ReconciledAt: o.at, State: inspect.StateFailing}, true},
		"requested again by another user":         {inspect.ObjectState{Ran: later, ReconcileAt: later, ReconciledAt: later, State: inspect.StateSynced}, true},
		"paused meanwhile":                        {inspect.ObjectState{Ran: clitest.Noon(), ReconcileAt: o.at, State: inspect.StatePaused}, true},
		"paused, and the request is not seen yet": {inspect.ObjectState{Ran: clitest.Noon(), State: inspect.StatePaused}, false},
	} {
		if got := o.reconciled(&client.VisibleState{ObjectState: c.now}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

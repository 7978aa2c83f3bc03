package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
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
	cluster(t, patchServer(t))
	found, err := (&clusterFlags{}).find()
	if err != nil {
		t.Fatal(err)
	}
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
		"many":        {names: many("a", 30), stdout: "30 of 30 objects requested\n"},
		"deleted":     {names: "a 404-NotFound", stdout: "Team shop/a: reconcile requested\n", stderr: "warning: 1 object was deleted meanwhile\n"},
		"rejected":    {names: "422-Invalid a", stdout: "Team shop/a: reconcile requested\n", stderr: "error: annotate Team shop/422-Invalid: patch teams.example.com shop/422-Invalid: it is Invalid\n", err: "1 of 2 objects requested, 1 rejected"},
		"all of many": {names: many("403-Forbidden", 12), stderr: strings.Repeat("error: annotate Team shop/403-Forbidden: patch teams.example.com shop/403-Forbidden: it is Forbidden\n", 10), err: "0 of 12 objects requested, 12 rejected"},
		"an outage":   {names: "503-ServiceUnavailable " + many("a", 9), err: "objects requested: annotate Team shop/503-ServiceUnavailable: "},
		"aborted":     {ctx: aborted, names: "a b", err: "aborted: 0 of 2 objects requested"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			perms, err := newPermissions(found)
			if err != nil {
				t.Fatal(err)
			}
			r := &session{program: &program{stdout: &stdout, stderr: &stderr}, permissions: perms}
			var targets []visibleState
			for name := range strings.FieldsSeq(c.names) {
				ref := team()
				ref.Name = name
				targets = append(targets, visibleState{ObjectState: inspect.ObjectState{Ref: ref}})
			}
			requests := newReconcileRequests(t.Context(), r, 5000)
			ctx := t.Context()
			if c.ctx != nil {
				ctx = c.ctx
			}
			got := ""
			if err := requests.objects(ctx, targets); err != nil {
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
	before := visibleState{ObjectState: inspect.ObjectState{Ran: noon, State: inspect.StateSynced}}
	o := requestedObject{before: before, at: noon.Add(time.Minute)}
	later := noon.Add(2 * time.Minute)
	for name, c := range map[string]struct {
		now  inspect.ObjectState
		want bool
	}{
		"the request is not seen yet":             {inspect.ObjectState{Ran: later, State: inspect.StateSynced}, false},
		"an earlier request":                      {inspect.ObjectState{Ran: later, ReconcileAt: noon, ReconciledAt: noon, State: inspect.StateSynced}, false},
		"not queued yet":                          {inspect.ObjectState{Ran: noon, ReconcileAt: o.at, State: inspect.StateSynced}, false},
		"a retry that began before the request":   {inspect.ObjectState{Ran: later, ReconcileAt: o.at, State: inspect.StateFailing}, false},
		"queued again":                            {inspect.ObjectState{Ran: later, ReconcileAt: o.at, ReconciledAt: o.at, State: inspect.StateQueued}, false},
		"synced":                                  {inspect.ObjectState{Ran: later, ReconcileAt: o.at, ReconciledAt: o.at, State: inspect.StateSynced}, true},
		"failing":                                 {inspect.ObjectState{Ran: later, ReconcileAt: o.at, ReconciledAt: o.at, State: inspect.StateFailing}, true},
		"requested again by another user":         {inspect.ObjectState{Ran: later, ReconcileAt: later, ReconciledAt: later, State: inspect.StateSynced}, true},
		"paused meanwhile":                        {inspect.ObjectState{Ran: noon, ReconcileAt: o.at, State: inspect.StatePaused}, true},
		"paused, and the request is not seen yet": {inspect.ObjectState{Ran: noon, State: inspect.StatePaused}, false},
	} {
		if got := o.reconciled(&visibleState{ObjectState: c.now}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

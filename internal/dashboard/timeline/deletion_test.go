package timeline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault U7: the deletion of an object ends its timeline.
func TestDeletions(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	for _, c := range []struct {
		got       *timeline.Deletion
		want      string
		requested time.Time
	}{
		{timeline.PendingDeletion(at, nil, nil), "Deletion requested", at},
		{timeline.PendingDeletion(at, new(int64(30)), []string{"a"}), "Deletion requested, waiting for the finalizer a", at.Add(-30 * time.Second)},
		{timeline.PendingDeletion(at, new(int64(0)), []string{"a", "b"}), "Deletion requested, waiting for the finalizers a, b", at},
		{timeline.CompletedDeletion([]inspect.Run{{Outcome: "synced"}}), "Deleted", time.Time{}},
	} {
		if c.got == nil || c.got.String() != c.want || !c.got.Requested.Equal(c.requested) {
			t.Errorf("%+v, want %s at %s", c.got, c.want, c.requested)
		}
	}
	review := inspect.Run{Outcome: "allowed", Steps: []inspect.Step{{Call: &inspect.Call{Review: &inspect.Review{Operation: "create"}}}}}
	if timeline.PendingDeletion(time.Time{}, nil, []string{"a"}) != nil || timeline.CompletedDeletion(nil) != nil || timeline.CompletedDeletion([]inspect.Run{review}) != nil {
		t.Error("an object that was not deleted, or never seen, has an ending")
	}
}

// Fault U7: a deletion stands in the order of time, once, with who requested it.
func TestSortDeletions(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := func(outcome, uid, process string, second int) inspect.Run {
		return inspect.Run{Outcome: outcome, Process: process, Object: object.Ref{UID: uid}, Began: at.Add(time.Duration(second) * time.Second)}
	}
	review := func(operation, user string, denied bool, second int) inspect.Run {
		r := run("allowed", "", "a", second)
		r.Causes = []string{operation + " by " + user}
		r.Steps = []inspect.Step{{Call: &inspect.Call{Review: &inspect.Review{Operation: operation, Denied: denied}}}}
		return r
	}
	runs := timeline.Sort([]inspect.Run{
		run("synced", "1", "a", 1), review("delete", "ann", false, 2), review("delete", "bob", true, 3), run("deleted", "1", "b", 5), run("deleted", "1", "a", 4),
		run("synced", "2", "a", 6), run("deleted", "2", "a", 8), run("deleted", "2", "b", 8), run("failed", "2", "b", 7),
	})
	got := lists.Map(runs, func(r inspect.Run) string { return r.Outcome + r.Object.UID })
	if want := []string{"deleted2", "failed2", "synced2", "deleted1", "allowed", "allowed", "synced1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if by := timeline.DeletedBy(runs, &runs[3]); by != "ann" {
		t.Errorf("the first one was deleted by %q", by)
	}
	if by := timeline.DeletedBy(runs, &runs[0]); by != "" {
		t.Errorf("the second one was deleted by %q, of which nothing is known", by)
	}
	if e := timeline.CompletedDeletion(runs); e == nil || !e.At.Equal(at.Add(8*time.Second)) || e.String() != "Deleted" {
		t.Errorf("%+v", e)
	}
	if e := timeline.CompletedDeletion(runs[3:]); e == nil || e.String() != "Deleted by ann" {
		t.Errorf("%+v", e)
	}
	// Of the latest one the deletion was not seen.
	if e := timeline.CompletedDeletion(runs[1:]); e == nil || !e.At.IsZero() {
		t.Errorf("%+v", e)
	}
}

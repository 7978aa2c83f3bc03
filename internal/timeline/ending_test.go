package timeline_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/timeline"
)

// Fault U7: the deletion of an object ends its timeline.
func TestEndings(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	for _, c := range []struct {
		got       *timeline.Ending
		want      string
		requested time.Time
	}{
		{timeline.Deleting(at, nil, nil), "Deletion requested", at},
		{timeline.Deleting(at, new(int64(30)), []string{"a"}), "Deletion requested, waiting for the finalizer a", at.Add(-30 * time.Second)},
		{timeline.Deleting(at, new(int64(0)), []string{"a", "b"}), "Deletion requested, waiting for the finalizers a, b", at},
		{timeline.Gone([]inspect.Run{{Outcome: "synced"}}), "Deleted", time.Time{}},
	} {
		if c.got == nil || c.got.String() != c.want || !c.got.Requested.Equal(c.requested) {
			t.Errorf("%+v, want %s at %s", c.got, c.want, c.requested)
		}
	}
	review := inspect.Run{Outcome: "allowed", Steps: []inspect.Step{{Ask: &inspect.Ask{Review: &inspect.Review{Operation: "create"}}}}}
	if timeline.Deleting(time.Time{}, nil, []string{"a"}) != nil || timeline.Gone(nil) != nil || timeline.Gone([]inspect.Run{review}) != nil {
		t.Error("an object that was not deleted, or never seen, has an ending")
	}
}

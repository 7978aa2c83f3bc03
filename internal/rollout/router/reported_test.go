package router

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// A hook that has no version any more has none in the status; one that has it for some parents only keeps it.
func TestSettledLogicVersion(t *testing.T) {
	for name, c := range map[string]struct {
		restored string
		// responses are the versions in responses about two parents, one after the other.
		responses [][2]string
		want      ReportedState
	}{
		"no response":          {"", nil, ReportedState{}},
		"none since a restart": {"one", nil, ReportedState{Known: true, Current: "one"}},
		"none ever":            {"", [][2]string{{"", ""}}, ReportedState{Known: true}},
		"the first":            {"", [][2]string{{"one", "one"}}, ReportedState{Known: true, Current: "one"}},
		"another one":          {"one", [][2]string{{"two", "two"}}, ReportedState{Known: true, Current: "two", Before: "one"}},
		"no longer":            {"", [][2]string{{"one", "one"}, {"", ""}}, ReportedState{Known: true}},
		"not since a restart":  {"one", [][2]string{{"", ""}}, ReportedState{Known: true}},
		"not for all":          {"", [][2]string{{"one", "one"}, {"one", ""}}, ReportedState{Known: true, Current: "one"}},
		"again":                {"", [][2]string{{"one", "one"}, {"", ""}, {"two", "two"}}, ReportedState{Known: true, Current: "two"}},
		"of another parent":    {"", [][2]string{{"one", ""}, {"", "one"}}, ReportedState{Known: true, Current: "one"}},
	} {
		v, now := NewReported("v1", c.restored), time.Now()
		state := v.Settle("v1", now)
		for _, versions := range c.responses {
			for i, version := range versions {
				v.note(parent{controller.ObjectID{Key: queue.Key{Name: []string{"a", "b"}[i]}}, "u"}, "v1", version, nil, now)
			}
			now = now.Add(rollout.SettleTime)
			state = v.Settle("v1", now)
		}
		if diff := cmp.Diff(c.want, state); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

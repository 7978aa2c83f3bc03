package composite

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// A hook that has no version any more has none in the status; one that has it for some parents only keeps it.
func TestSettledLogicVersion(t *testing.T) {
	for name, c := range map[string]struct {
		restored string
		// responses are the versions in responses about two parents, one after the other.
		responses [][2]string
		want      LogicVersionState
	}{
		"no response":          {"", nil, LogicVersionState{}},
		"none since a restart": {"one", nil, LogicVersionState{Known: true, Current: "one"}},
		"none ever":            {"", [][2]string{{"", ""}}, LogicVersionState{Known: true}},
		"the first":            {"", [][2]string{{"one", "one"}}, LogicVersionState{Known: true, Current: "one"}},
		"another one":          {"one", [][2]string{{"two", "two"}}, LogicVersionState{Known: true, Current: "two", Before: "one"}},
		"no longer":            {"", [][2]string{{"one", "one"}, {"", ""}}, LogicVersionState{Known: true}},
		"not since a restart":  {"one", [][2]string{{"", ""}}, LogicVersionState{Known: true}},
		"not for all":          {"", [][2]string{{"one", "one"}, {"one", ""}}, LogicVersionState{Known: true, Current: "one"}},
		"again":                {"", [][2]string{{"one", "one"}, {"", ""}, {"two", "two"}}, LogicVersionState{Known: true, Current: "two"}},
		"of another parent":    {"", [][2]string{{"one", ""}, {"", "one"}}, LogicVersionState{Known: true, Current: "one"}},
	} {
		v, now := NewLogicVersions("v1", c.restored), time.Now()
		state := v.Settle("v1", now)
		for _, versions := range c.responses {
			for i, version := range versions {
				v.note(shadowed{guardedParent{key: queue.Key{Name: []string{"a", "b"}[i]}}, "u"}, "v1", version, now)
			}
			now = now.Add(rollout.SettleTime)
			state = v.Settle("v1", now)
		}
		if diff := cmp.Diff(c.want, state); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

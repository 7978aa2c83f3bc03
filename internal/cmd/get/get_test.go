package get

import (
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

func TestWatchWarnsOnce(t *testing.T) {
	var stderr strings.Builder
	r := &controllerLister{Session: &processes.Session{Invocation: &command.Invocation{Stderr: &stderr}}}
	for range 2 {
		r.warnHidden(2)
	}
	if got := stderr.String(); strings.Count(got, "2 controllers are hidden") != 1 {
		t.Errorf("said %q", got)
	}
}

// Fault G2: a controller that is refused says why. Fault U12: an error that was overcome is
// no last error.
func TestLastErrorOnlyWhileFailing(t *testing.T) {
	r := &controllerLister{Session: &processes.Session{ReadFlags: &processes.ReadFlags{PrintFlags: output.NewPrintFlags(output.AsTable, output.AsWide)}}}
	ready := inspect.Condition{Type: "Ready", Status: "True"}
	last := &inspect.Failure{Message: "no answer", Time: clitest.Noon()}
	for _, c := range []struct {
		of   inspect.Controller
		want string
	}{
		{inspect.Controller{Conditions: []inspect.Condition{{Type: "Accepted", Status: "False", Message: "spec.childResources[0]: no such kind"}, {Type: "Ready", Status: "False", Reason: "NotAccepted"}}}, "spec.childResources[0]: no such kind"},
		{inspect.Controller{Conditions: []inspect.Condition{ready}, Failing: 1, Last: last}, "5s ago, no answer"},
		{inspect.Controller{Conditions: []inspect.Condition{{Type: "Ready", Status: "False"}}, Last: last}, "5s ago, no answer"},
		{inspect.Controller{Conditions: []inspect.Condition{ready}, Last: last}, ""},
	} {
		if cells := r.controllerRow(c.of, false, false, clitest.Noon().Add(5*time.Second)).Cells; cells[len(cells)-1] != c.want {
			t.Errorf("%+v: %q, want %q", c.of, cells, c.want)
		}
	}
}

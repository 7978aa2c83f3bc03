package setpointtest

import (
	"testing"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/explore"
)

// Explore tries all orders in which events, calls, writes, crashes, faults and edits can follow each other, within
// bounds, and checks the properties of docs/test.md and the invariants of the exploration. No API server runs. The
// test fails with the shortest story of each violation, in words.
//
// It writes the stories to testdata/explore/NAME OF THE TEST. Keep the files: while they exist, Explore first makes
// their steps again, and the test fails at once if a property is still violated. Delete the file of a story whose steps
// are not possible any more.
//
// The functions of the app must depend only on their arguments and on External. Admission reviews and daemons are not
// called.
func Explore(t testing.TB, app *setpoint.App, e Exploration) {
	t.Helper()
	options, err := e.convert(t.Context(), t.Name(), app)
	if err != nil {
		t.Fatalf("explore: %v", err)
	}
	stories := storiesOf(t)
	if stories.replay(t, options) {
		t.FailNow()
	}
	report, err := explore.Explore(t.Context(), options)
	if err != nil {
		t.Fatalf("explore: %v", err)
	}
	if report.Passed() {
		t.Log("\n" + report.String())
		return
	}
	t.Errorf("\n%s", report.String())
	stories.save(t, report.Violations)
}

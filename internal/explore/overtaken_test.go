package explore_test

import (
	"net/http"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// overtaking is a process whose writes have no resource version, so that they succeed after another client's.
type overtaking struct {
	careless

	// noticed is set when an event arrives that an own write has overtaken.
	noticed *bool
}

func (o overtaking) Step(run world.Run) world.Step {
	if len(run.Exchanges) == 0 {
		return world.Step{Request: &loop.Request{
			Method: http.MethodPatch, Target: "/apis/example.com/v1/namespaces/default/things/a",
			ContentType: "application/merge-patch+json", Body: []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		}}
	}
	step := world.Step{End: &world.End{}}
	if stored, err := object.Parse(run.Exchanges[0].Response.Body); err == nil && stored.Kind() == "Thing" {
		step.Wrote = []world.Event{{Object: stored, Writer: "overtaking"}}
	}
	return step
}

func (o overtaking) Deliver(_ []*object.Object, own []world.Event, event world.Event) []world.Item {
	if len(own) == 0 || own[0].Object.Version() == event.Object.Version() {
		return nil
	}
	if own[0].Writer == "overtaking" && own[0].Object.Version() > event.Object.Version() {
		*o.noticed = true
	}
	return []world.Item{copied}
}

// TestOvertakenEventsArrive shows that the event of another client's change arrives after an own write that has overtaken
// it, and that the process decides then.
func TestOvertakenEventsArrive(t *testing.T) {
	noticed := false
	options := system(t, numbered)
	options.Memo, options.Controllers = nil, []world.Controller{{Name: "careless", Start: func() (world.Process, error) { return overtaking{noticed: &noticed}, nil }}}
	options.Edits, options.Bounds = []world.Edit{editOf("other text", map[string]any{"text": "y"})}, explore.Bounds{Edits: 1}
	options.Workers = 1
	wantViolations(t, run(t, options))
	if !noticed {
		t.Error("no event came that an own write had overtaken")
	}
}

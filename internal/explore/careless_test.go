package explore_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// careless is a process that copies the text of a thing to a ConfigMap, as a controller may that Setpoint does not run.
type careless struct {
	// deaf ignores events.
	deaf bool
}

var copied = explore.Item{Controller: "careless", Key: queue.Key{Namespace: "default", Name: "a"}}

func (careless) Watches(*object.Object) bool              { return true }
func (careless) Start([]*object.Object) []explore.Item    { return []explore.Item{copied} }
func (careless) Merge(_, newer explore.Item) explore.Item { return newer }

func (c careless) Deliver(_ []*object.Object, _ []explore.Event, event explore.Event) []explore.Item {
	if c.deaf || event.Object.Kind() != "Thing" {
		return nil
	}
	return []explore.Item{copied}
}

// Step creates the ConfigMap, without an owner, or updates it.
func (careless) Step(run explore.Run) explore.Step {
	var from, to *object.Object
	for _, o := range run.Cached {
		switch o.Kind() {
		case "Thing":
			from = o
		case "ConfigMap":
			to = o
		}
	}
	if from == nil || len(run.Exchanges) > 0 {
		return explore.Step{End: &explore.End{}}
	}
	var parent thing
	if err := json.Unmarshal(from.JSON(), &parent); err != nil {
		return explore.Step{Err: err}
	}
	const path = "/api/v1/namespaces/default/configmaps"
	request := explore.Request{Method: http.MethodPost, Target: path, ContentType: "application/json", Body: configMap("c", parent.Spec.Text)}
	switch {
	case to != nil && text(to.JSON()) == parent.Spec.Text:
		return explore.Step{End: &explore.End{}}
	case to != nil:
		request.Method, request.Target = http.MethodPut, path+"/c"
	}
	return explore.Step{Request: &request}
}

// TestCarelessControllers plants mistakes that Setpoint does not let a hook make.
func TestCarelessControllers(t *testing.T) {
	for want, test := range map[explore.Property]struct {
		process careless
		edit    explore.Edit
		text    string
	}{
		explore.Owned:   {careless{}, deletion(), "ConfigMap default/c has no owner, and stays when all else is deleted"},
		explore.Desired: {careless{deaf: true}, editOf("other text", map[string]any{"text": "y"}), "one more reconcile of default/a writes: update ConfigMap default/c"},
	} {
		options := system(t, numbered)
		options.Controllers = []explore.Controller{{Name: "careless", Start: func() (explore.Process, error) { return test.process, nil }}}
		options.Edits, options.Bounds = []explore.Edit{test.edit}, explore.Bounds{Edits: 1}
		options.Unchecked = []explore.Property{explore.SameEnd} // Both mistakes also make the end depend on the way.
		report := run(t, options)
		wantViolations(t, report, want)
		wantText(t, report.Text(), test.text)
	}
}

// TestAFinalizerThatStays explores a finalize hook that never says that it is done.
func TestAFinalizerThatStays(t *testing.T) {
	program := programOf(numbered)
	program.Finalize, program.Finalizer = program.Sync, "example.com/things"
	options := systemOf(t.Context(), t, program)
	options.Edits, options.Bounds = []explore.Edit{deletion()}, explore.Bounds{Edits: 1}
	report := run(t, options)
	wantViolations(t, report, explore.Finalized)
	wantText(t, report.Text(), "Thing default/a is being deleted for ever; its finalizers: example.com/things")
}

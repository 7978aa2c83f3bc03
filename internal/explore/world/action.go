package world

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// ActionKind is a kind of step.
type ActionKind string

const (
	Deliver   ActionKind = "deliver"   // the next event of a kind reaches a cache
	Reconcile ActionKind = "reconcile" // a run begins
	Send      ActionKind = "request"   // the API server handles the next request of a run
	Reject    ActionKind = "reject"    // the API server or the network fails the next request of a run
	Restart   ActionKind = "restart"   // a process ends, and starts again
	MakeEdit  ActionKind = "edit"      // a user edits an object
	Interfere ActionKind = "interfere" // another client edits or deletes a child
	Proceed   ActionKind = "proceed"   // another controller does its work
	Collect   ActionKind = "collect"   // the garbage collector does, or a namespace that terminates
)

// Action is one step in a form that survives in a file.
type Action struct {
	Step ActionKind `json:"step"`
	// Process is the name of the process that makes the step, Controller that of its controller.
	Process    string `json:"process,omitempty"`
	Controller string `json:"controller,omitempty"`
	// Key is the parent or the object of a run.
	Key string `json:"key,omitempty"`
	// Object is what the step is about.
	Object *object.Ref `json:"object,omitempty"`
	// Name is that of an edit, of a failure, or of a change by the environment.
	Name string `json:"name,omitempty"`
}

// The lanes of a timeline.
const (
	LaneUsers    = "Users and other clients"
	LaneSetpoint = "Setpoint"
	LaneServer   = "API server"
	LaneOthers   = "Other controllers"
)

// kindsOfActions say who makes a step of each kind, and which fields it needs, in the order of their names in errors.
var kindsOfActions = []struct {
	kind                            ActionKind
	lane                            string
	controller, key, object, naming bool
}{
	{kind: Deliver, lane: LaneServer, object: true},
	{kind: Reconcile, lane: LaneSetpoint, controller: true, key: true},
	{kind: Send, lane: LaneSetpoint, controller: true, key: true},
	{kind: Reject, lane: LaneServer, controller: true, key: true, naming: true},
	{kind: Restart, lane: LaneSetpoint, naming: true},
	{kind: MakeEdit, lane: LaneUsers, object: true, naming: true},
	{kind: Interfere, lane: LaneUsers, object: true, naming: true},
	{kind: Proceed, lane: LaneOthers, object: true, naming: true},
	{kind: Collect, lane: LaneOthers, object: true, naming: true},
}

// Lane returns the one who makes the step.
func (a *Action) Lane() string {
	for _, k := range kindsOfActions {
		if k.kind == a.Step {
			return k.lane
		}
	}
	return LaneOthers
}

// Check reports a step that no exploration makes, by the name of its field.
func (a *Action) Check() error {
	var names []string
	for _, needs := range kindsOfActions {
		names = append(names, string(needs.kind))
		if needs.kind != a.Step {
			continue
		}
		for _, field := range []struct {
			name         string
			needed, gone bool
		}{
			{"controller", needs.controller, a.Controller == ""}, {"key", needs.key, a.Key == ""},
			{"object", needs.object, a.Object == nil}, {"name", needs.naming, a.Name == ""},
		} {
			if field.needed && field.gone {
				return fmt.Errorf("%s: is required for the step %s", field.name, a.Step)
			}
		}
		return nil
	}
	return fmt.Errorf("step: %q is no step; there are %s", a.Step, strings.Join(names, ", "))
}

// SameAction compares actions as files have them.
func SameAction(a, b Action) bool {
	if a.Object != nil && b.Object != nil {
		first, second := a.Object.Identity(), b.Object.Identity()
		a.Object, b.Object = &first, &second
	}
	return reflect.DeepEqual(a, b)
}

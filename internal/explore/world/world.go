// Package world is what explorations explore: processes of controllers, an API server and other controllers, whose methods are
// functions of values. It has those of Setpoint and those in memory.
package world

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Controller is the process with the controllers to explore.
type Controller struct {
	Name string
	// Start returns a process of it. Each worker of a search has its own, and calls it from one goroutine.
	Start func() (Process, error)
}

// Process is what one controller does. All methods are functions of their arguments.
type Process interface {
	// Watches reports whether the controller's watches select an object.
	Watches(o *object.Object) bool
	// Start returns the items that a process queues that has just listed these objects.
	Start(cached []*object.Object) []Item
	// Deliver returns the items that an event queues. Seen are the objects that earlier events have made, own the writes
	// of the process that it already has in its cache though their events are still to come.
	Deliver(seen []*object.Object, own []Event, event Event) []Item
	// Observe returns the items that an own write queues when the cache gets its result.
	Observe(seen []*object.Object, own []Event, wrote Event) []Item
	// Step runs a reconcile from its beginning until its next request to the API server, or to its end.
	Step(run Run) Step
	// Merge returns one item for two of the same key.
	Merge(older, newer Item) Item
}

// Reader is a Process that knows what runs read. Without it, objects are explored together.
type Reader interface {
	// Reads reports whether a run of an item may read an object that is neither its own, nor refers to its UID, nor has
	// a name under which the run writes; or whether an event of the object may queue the item.
	Reads(item Item, o *object.Object) bool
}

// Event is an object as it is now or, if deleted, as it was.
type Event struct {
	Object  *object.Object
	Deleted bool
	// Writer is what the Process needs to know of an own write; it is comparable.
	Writer any
}

// Item is an object to reconcile.
type Item struct {
	Controller string
	Key        queue.Key
	// Object is the identity of the object with the key.
	Object object.Ref
	// Digest identifies what the item makes a run do, besides its controller and key.
	Digest uint64
	// Value is what the Process needs of it.
	Value any
	// Refers is set if the value has objects.
	Refers bool
	// Failed is set for a retry.
	Failed bool
}

// Run is a reconcile that has begun.
type Run struct {
	Item Item
	// Cached is what the cache had when the run began, sorted like a State.
	Cached []*object.Object
	// Exchanges are its requests so far.
	Exchanges []loop.Exchange
}

// Step is what a run does next.
type Step struct {
	// Request is nil if the run has ended.
	Request *loop.Request
	// Wrote is what the run has put into its cache so far: the results of its own writes.
	Wrote []Event
	// Queued are items that the run has queued.
	Queued []Item
	End    *End
	// Err means that the run cannot go on; it aborts the search.
	Err error
}

// End is how a run ended.
type End struct {
	// Again is the item of the next run, which the run or its failure planned; nil if it planned none.
	Again *Item
	// Err is the error of the run; nil if it succeeded.
	Err error
	// Panicked is set if Err is a panic.
	Panicked bool
}

// CompareItems orders items by controller and key.
func CompareItems(a, b Item) int {
	return cmp.Or(strings.Compare(a.Controller, b.Controller), strings.Compare(a.Key.Namespace, b.Key.Namespace),
		strings.Compare(a.Key.Name, b.Key.Name))
}

// IsControlled reports whether an object has a controller.
func IsControlled(o *object.Object) bool {
	_, controlled := o.Controller()
	return controlled
}

// IsOutage reports whether an object stands for an outage.
func IsOutage(ref object.Ref) bool { return ref.GroupKind() == loop.OutageResource.GroupKind() }

// ActionKind is a kind of step.
type ActionKind string

// The kinds of steps.
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
	// Controller is that of the run that makes the step.
	Controller string `json:"controller,omitempty"`
	// Key is the parent or the object of a run.
	Key string `json:"key,omitempty"`
	// Object is what the step is about.
	Object *object.Ref `json:"object,omitempty"`
	// Name is that of an edit, of a failure, or of a change by the environment.
	Name string `json:"name,omitempty"`
}

// requiredFields are those of a step of each kind, in the order of their names in errors.
var requiredFields = []struct {
	kind   ActionKind
	fields string
}{
	{Deliver, "object"}, {Reconcile, "controller key"}, {Send, "controller key"}, {Reject, "controller key name"}, {Restart, "name"},
	{MakeEdit, "object name"}, {Interfere, "object name"}, {Proceed, "object name"}, {Collect, "object name"},
}

// Check reports a step that no exploration makes, by the name of its field.
func (a *Action) Check() error {
	given := map[string]bool{"controller": a.Controller != "", "key": a.Key != "", "object": a.Object != nil, "name": a.Name != ""}
	var names []string
	for _, one := range requiredFields {
		names = append(names, string(one.kind))
		if one.kind != a.Step {
			continue
		}
		for field := range strings.FieldsSeq(one.fields) {
			if !given[field] {
				return fmt.Errorf("%s: is required for the step %s", field, a.Step)
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

// Edit is a change of one object by a user or another client.
type Edit struct {
	Name   string     `json:"name"`
	Object object.Ref `json:"object"`
	// Patch is a merge patch.
	Patch map[string]any `json:"patch,omitempty"`
	// Delete deletes the object.
	Delete bool `json:"delete,omitempty"`
	// Generated marks edits that no author has written.
	Generated bool `json:"-"`
	// Create is an object to create.
	Create Manifest `json:"create,omitzero"`
}

// Manifest is an object that is written and read as it is; the zero value has none.
type Manifest struct{ *object.Object }

// MarshalJSON returns the object.
func (m Manifest) MarshalJSON() ([]byte, error) { return m.JSON(), nil }

// UnmarshalJSON reads an object.
func (m *Manifest) UnmarshalJSON(data []byte) (err error) {
	m.Object, err = object.Parse(data)
	return err
}

// ErrUnchanged is the error of an edit that has nothing to change.
var ErrUnchanged = errors.New("there is nothing to change")

// Editor is the field manager of edits.
const Editor = "kubectl"

// RequestOf returns the request of an edit, and whether there is something to change. The object is nil if there is
// none.
func RequestOf(resource object.Resource, o *object.Object, edit Edit) (request apiserver.Request, changes bool) {
	switch {
	case edit.Create.Object != nil:
		request = apiserver.CreationOf(resource, edit.Create.Object)
		request.Strict = true
		return request, true
	case o == nil || o.Deleting() && edit.Delete:
		return apiserver.Request{}, false
	case edit.Delete:
		background := metav1.DeletePropagationBackground
		return apiserver.DeletionOf(resource, o, metav1.DeleteOptions{PropagationPolicy: &background}), true
	}
	subresource := ""
	if _, status := edit.Patch["status"]; status && len(edit.Patch) == 1 && resource.Status {
		subresource = "status"
	}
	request = apiserver.PatchOf(resource, o, subresource, edit.Patch)
	request.Strict = true // A misspelled field is a mistake, not an edit that changes nothing.
	return request, true
}

// AddPaths adds the paths of values, and their names.
func AddPaths(all map[string][]string, names []string, value map[string]any) {
	for name, member := range value {
		below := append(slices.Clone(names), name)
		if nested, is := member.(map[string]any); is && len(nested) > 0 {
			AddPaths(all, below, nested)
		} else {
			all[PathOf(below)] = below
		}
	}
}

// PathOf joins the names of a path.
func PathOf(names []string) string {
	path := ""
	for _, name := range names {
		path = object.JoinPath(path, name)
	}
	return path
}

// UnknownFields returns the part of an error that names fields which the schema does not have; empty if it names none. The
// API server puts the whole object before it.
func UnknownFields(err error) string {
	if err == nil {
		return ""
	}
	_, fields, _ := strings.Cut(err.Error(), "strict decoding error: ")
	return fields
}

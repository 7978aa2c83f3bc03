// Package explore searches all interleavings of a controller, its API server, its users and its environment
// within bounds, and reports the properties that do not hold, each with a shortest story.
//
// It contains the states, the steps between them, the search, the properties, the invariants of authors, and the
// stories. It neither decides what a controller does nor what an API server stores: packages below it do, behind
// the interfaces of this file. Everything they compute is remembered by its input, so that most steps are lookups.
package explore

import (
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Controller is a process with one or more controllers to explore.
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
	// Cached is what the cache had when the run began, sorted like Stored.
	Cached []*object.Object
	// Exchanges are its requests so far.
	Exchanges []Exchange
}

// Exchange is a request and its response.
type Exchange struct {
	Request  Request
	Response Response
}

// Request is a request to the API server.
type Request = loop.Request

// Response is the response of the API server.
type Response struct {
	Status int
	Body   []byte
	// Err is the error of a connection.
	Err error
}

// Step is what a run does next.
type Step struct {
	// Request is nil if the run has ended.
	Request *Request
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

// Stored is what an API server stores, sorted by group, kind, namespace and name. It is immutable.
type Stored []Slot

// Slot is a name: the object that has it, and what is left of those that had it before.
type Slot struct {
	// Ref is an identity: group, kind, namespace and name.
	Ref object.Ref
	// Object is nil if no object has the name.
	Object *object.Object
	// Born counts the objects that had the name, which makes their UIDs differ.
	Born uint64
	// Written is the last resource version under the name.
	Written uint64
}

// Server is an API server whose state is a value. Its methods are safe for concurrent use.
type Server interface {
	// Do handles a request. Objects that it does not change stay as they are.
	Do(stored Stored, request Request) (Stored, Response)
	// Edit makes a change that another client requests. An edit that changes nothing, or that the server refuses,
	// returns an error.
	Edit(stored Stored, edit Edit) (Stored, error)
	// Path is that of the requests for an object.
	Path(ref object.Ref) string
	// Collect returns what garbage collection and terminating namespaces may lead to next.
	Collect(stored Stored) []Move
}

// Environment is what other controllers do. It is safe for concurrent use.
type Environment interface {
	Moves(stored Stored) []Move
}

// Move is a change that neither users nor the controllers make.
type Move struct {
	// Name says what happens, such as "becomes ready".
	Name   string
	Object object.Ref
	After  Stored
	// Writes are the requests of Manager that make it, for another server.
	Writes  []apiserver.Request
	Manager string
	// Fault marks failures, which have a budget.
	Fault bool
}

// Edit is a change of one object by a user or another client.
type Edit struct {
	Name   string     `json:"name"`
	Object object.Ref `json:"object"`
	// Create is the manifest of an object to create.
	Create *object.Object `json:"-"`
	// Patch is a merge patch.
	Patch map[string]any `json:"patch,omitempty"`
	// Delete deletes the object.
	Delete bool `json:"delete,omitempty"`
	// Generated marks edits that no author has written.
	Generated bool `json:"-"`
}

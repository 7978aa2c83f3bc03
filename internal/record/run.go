// Package record says what one run of a controller did: what brought it about, whom
// it asked, what was planned, what was written and how all of that ended.
//
// Here live the account of a run, how it is taken while the run goes on, and how an
// object is doing. What must not: keeping accounts and showing them. Engine and react
// take an account of each run and hand it to whoever observes them; the room inspect
// keeps some and puts them into words. An account shares what the run had in its hands
// (objects of the cache, requests, replies) and copies none of it, so that taking one
// costs next to nothing.
package record

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Outcome is how a run ended.
type Outcome string

// The outcomes, as metrics name them.
const (
	// Skipped runs found nothing that was not dealt with already.
	Skipped Outcome = "skipped"
	// Synced runs did all there was to do.
	Synced Outcome = "synced"
	// Postponed runs come again: something moved meanwhile, or whoever was asked
	// wants more time.
	Postponed Outcome = "postponed"
	// Failed runs come again after a backoff, or when their input changes.
	Failed Outcome = "failed"
	// Deleted is no run: the watch delivered that the object was deleted.
	Deleted Outcome = "deleted"
)

// Run is the account of one run. Whoever observes gets it for good, steps and all; the
// objects, questions and answers that those lead to are shared.
type Run struct {
	// Controller is the name of the controller.
	Controller string
	// Resource and Key say what the run was about. UID is a view of the object:
	// whoever keeps it keeps all of that.
	Resource object.Resource
	Key      queue.Key
	UID      string
	// Causes are what brought it about. By says so where nothing was queued, such as
	// "daemon watch wrote".
	Causes  queue.Causes
	Trigger string
	// Attempt is how many runs had failed in a row before.
	Attempt int
	// StartTime is when, Waited how long the object had waited for it, Took how long
	// it took.
	StartTime               time.Time
	QueueDuration, Duration time.Duration
	Outcome                 Outcome
	// Err is what it failed with, or was postponed for; nil otherwise.
	Err error
	// NextRun is when it is known to come again; zero where only something new brings
	// that about.
	NextRun time.Time
	Steps   []Step
}

// IsNoop says that nothing was done, and nothing is worth keeping.
func (r *Run) IsNoop() bool {
	return len(r.Steps) == 0 && (r.Outcome == Skipped || r.Outcome == Postponed && r.Err == nil)
}

// Deletion is the record of a deletion that a watch delivered.
func Deletion(program string, resource object.Resource, o *object.Object, at time.Time) Run {
	key := queue.Key{Namespace: o.Namespace(), Name: o.Name()}
	return Run{Controller: program, Resource: resource, Key: key, UID: o.UID(), StartTime: at, Outcome: Deleted}
}

// Step is one thing that a run did. Exactly one of its parts is set.
type Step struct {
	// Offset is how far into the run it began, Took how long it took.
	Offset, Duration time.Duration
	Call             *Call
	Plan             *Planned
	Write            *Write
	Event            *hook.Event
}

// Call is a question to a hook, to a handler, or of the API server.
type Call struct {
	// Name is "sync", "finalize" or "customize", or the name of a handler or of a
	// review; Reason is what a handler was told of.
	Name   string
	Reason hook.Reason
	// Revision is the revision of the parent that the hook was shown; zero where the
	// controller keeps none.
	Revision Revision
	// What was asked and answered. Answers are nil after an error.
	Request  Request
	Response Response
	Err      error
}

// Revision is one of the parent's: its ControllerRevision, and which number that has.
type Revision struct {
	Name   string `json:"name"`
	Number int64  `json:"number"`
	// Previous says that it is not the latest one: children still follow it.
	Previous bool `json:"former,omitempty"`
}

// ComparableTo says that a request at this revision is to be compared with an earlier one: a
// request at a former revision with one at that revision, whether or not that was the
// latest then. What is different from the latest to the latest was edited.
func (r Revision) ComparableTo(earlier Revision) bool {
	if r.Previous {
		return earlier.Name == r.Name
	}
	return !earlier.Previous
}

// Request is what was asked: one of its parts is set, or none.
type Request struct {
	// ControllerType says how Sync is written down.
	ControllerType hook.ControllerType
	Sync           *hook.Request
	Customize      *hook.CustomizeRequest
	Handler        *hook.HandlerRequest
	Review         *hook.ReviewRequest
}

// Response is what was answered: one of its parts is set, or none.
type Response struct {
	Sync      *hook.Response
	Customize *hook.CustomizeResponse
	Handler   *hook.HandlerResponse
	Review    *hook.ReviewResponse
}

// Planned is what was decided: the writes, in stages, and how many children were as
// they should be.
type Planned struct {
	Stages [][]plan.Action
	Equal  int
}

// Write is a request to the API server that was to change something, and its answer.
type Write struct {
	// Verb is that of a plan, or "evict" or "patch".
	Verb     plan.Verb
	Resource object.Resource
	Ref      object.Ref
	// Part is "status" where the status alone was written, "metadata" for finalizers,
	// labels and annotations; empty for an object as a whole.
	Part string
	// Version is what the object has become, 0 if it is gone or nothing was written.
	// Unchanged says that the server stored nothing, for it was there already.
	Version   uint64
	Unchanged bool
	Err       error
	// Before and After are the object where no plan has them.
	Before, After *object.Object
}

// The verbs of writes that no plan has.
const (
	Patch plan.Verb = "patch"
	Evict plan.Verb = "evict"
)

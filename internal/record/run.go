// Package record describes one reconcile: its cause, hook calls, plan, writes and
// outcome.
//
// The loops create a Record per run and pass the finished Run to observers; the dashboard
// stores and formats them. A Run shares the objects, requests and
// responses of the reconcile rather than copying them, so recording is cheap.
package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Outcome is the outcome of a run.
type Outcome string

// The outcomes, as used in metric labels.
const (
	// Skipped runs found no changes to process.
	Skipped Outcome = "skipped"
	// Synced runs completed.
	Synced Outcome = "synced"
	// Postponed runs are requeued: an object changed concurrently, or the hook requested
	// more time.
	Postponed Outcome = "postponed"
	// Failed runs are retried with backoff, or when their input changes.
	Failed Outcome = "failed"
	// Deleted records a deletion event from the watch, not a run.
	Deleted Outcome = "deleted"
)

// Run records one reconcile. The receiver owns the Run and its steps; the objects,
// requests and responses they refer to are shared.
type Run struct {
	Controller string
	// Resource and Key identify the object. UID aliases the object's memory, so storing
	// it retains the whole object.
	Resource object.Resource
	Key      queue.Key
	UID      string
	// Causes are the queued causes. By describes the cause of a run that was not queued,
	// such as "daemon watch wrote".
	Causes  queue.Causes
	Trigger string
	// Attempt is the number of consecutive failures before this run.
	Attempt int
	// TraceID is empty without a trace.
	TraceID string
	// StartTime, the time spent in the queue, and the duration of the run.
	StartTime               time.Time
	QueueDuration, Duration time.Duration
	Outcome                 Outcome
	// Err is the error of a failed or postponed run; nil otherwise.
	Err error
	// NextRun is the next scheduled run; zero if only an event triggers one.
	NextRun time.Time
	Steps   []Step
	// Secrets are values of Secrets that the run has seen, which may be in none of its steps; nil if unknown.
	Secrets *redact.Values
}

// IsNoop reports whether the run changed nothing and is not worth storing.
func (r *Run) IsNoop() bool {
	return len(r.Steps) == 0 && (r.Outcome == Skipped || r.Outcome == Postponed && r.Err == nil)
}

// Deletion returns the record of a deletion event from the watch.
func Deletion(program string, resource object.Resource, o *object.Object, at time.Time) Run {
	key := queue.Key{Namespace: o.Namespace(), Name: o.Name()}
	return Run{Controller: program, Resource: resource, Key: key, UID: o.UID(), StartTime: at, Outcome: Deleted}
}

// Step is one step of a run. Exactly one of its pointers is set.
type Step struct {
	// Offset is the time from the start of the run to the start of the step.
	Offset, Duration time.Duration
	Call             *Call
	Plan             *Planned
	Write            *Write
	Event            *hook.Event
}

// Call is a call to a hook, a handler, or the API server.
type Call struct {
	// Name is "sync", "finalize" or "customize", or the name of a handler or webhook.
	// Reason is that of a handler request.
	Name   string
	Reason hook.Reason
	// Version names the version of the hooks; empty if the controller has no rollouts.
	Version string
	// Revision is the parent revision in the request; zero if the controller stores
	// none.
	Revision Revision
	// Unverified means that the caller of a webhook did not prove to be the API server.
	Unverified bool
	// Response is empty after an error.
	Request  Request
	Response Response
	Err      error
	// Output is what the hook printed; nil if it cannot print.
	Output *call.Output
}

// Revision identifies a ControllerRevision of the parent.
type Revision struct {
	Name   string `json:"name"`
	Number int64  `json:"number"`
	// Previous means that a newer revision exists; some children still use this one.
	Previous bool `json:"former,omitempty"`
}

// ComparableTo reports whether to show the difference between the request at this
// revision and an earlier one. Requests at a previous revision compare only with the
// same revision; requests at the latest compare with any latest, because the difference
// is the user's edit.
func (r Revision) ComparableTo(earlier Revision) bool {
	if r.Previous {
		return earlier.Name == r.Name
	}
	return !earlier.Previous
}

// Request is the request of a call. At most one of its pointers is set.
type Request struct {
	// ControllerType selects the wire form of Sync.
	ControllerType hook.ControllerType
	Sync           *hook.Request
	Customize      *hook.CustomizeRequest
	Handler        *hook.HandlerRequest
	Review         *hook.ReviewRequest
}

// IsEmpty reports whether there is no request, as of a review that could not be read.
func (q *Request) IsEmpty() bool {
	return q.Sync == nil && q.Customize == nil && q.Handler == nil && q.Review == nil
}

// Response is the response of a call. At most one of its pointers is set.
type Response struct {
	Sync      *hook.Response
	Customize *hook.CustomizeResponse
	Handler   *hook.HandlerResponse
	Review    *hook.ReviewResponse
	// ReviewPatch is what Review changes, as a JSON patch; nil for nothing.
	ReviewPatch json.RawMessage
}

// Planned has the planned writes in stages, and the number of children that need none.
type Planned struct {
	Stages [][]plan.Action
	Equal  int
}

// Write is a mutating request to the API server with its result.
type Write struct {
	// Verb is a verb of package plan, or "evict" or "patch".
	Verb     plan.Verb
	Resource object.Resource
	Ref      object.Ref
	// Part is "status" for a write of the status, "metadata" for finalizers, labels and
	// annotations; empty for the whole object.
	Part string
	// Version is the resulting resource version, 0 if the object is gone or the write
	// failed. Unchanged means that the server already had the same object.
	Version   uint64
	Unchanged bool
	Err       error
	// Before and After are the object of a write outside plans.
	Before, After *object.Object
}

// Patch is the verb of writes outside plans.
const Patch plan.Verb = "patch"

// CauseTexts returns the causes of a run, the most important first.
func (r *Run) CauseTexts() []string {
	if r.Trigger != "" {
		return []string{r.Trigger}
	}
	list, more := slices.Clone(r.Causes.List()), r.Causes.More()
	if r.Causes.Has(queue.Start) {
		// Objects in the initial list have not changed.
		more = 0
		list = slices.DeleteFunc(list, func(c queue.Cause) bool {
			return c.Kind == queue.Start || c.Kind == queue.ChildChanged || c.Kind == queue.RelatedChanged
		})
		list = append(list, queue.Cause{Kind: queue.Start}) // It may have been displaced by other causes.
	}
	slices.SortStableFunc(list, func(a, b queue.Cause) int { return cmp.Compare(causeRank(a.Kind), causeRank(b.Kind)) })
	causes := make([]string, 0, len(list)+1)
	for _, cause := range list {
		causes = append(causes, describeCause(cause))
	}
	if more > 0 {
		causes = append(causes, fmt.Sprintf("and %d more", more))
	}
	return causes
}

// causeRank orders causes: user actions, then changes, then timers.
func causeRank(kind queue.CauseKind) int {
	switch kind {
	case queue.ReconcileRequested, queue.LogicChanged, queue.HookChanged:
		return 0
	case queue.ParentChanged:
		return 1
	case queue.ChildChanged, queue.RelatedChanged:
		return 2
	case queue.StatusChanged:
		return 3
	case queue.Retrying:
		return 5
	}
	return 4
}

// describeCause returns the text of a cause.
func describeCause(cause queue.Cause) string {
	switch cause.Kind {
	case queue.ParentChanged:
		return "the object changed"
	case queue.StatusChanged:
		return "the object's status changed"
	}
	return cause.String()
}

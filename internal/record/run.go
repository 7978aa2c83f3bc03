// Package record describes one reconcile: its cause, hook calls, plan, writes and
// outcome.
//
// The loops create a Record per run and pass the finished Run to observers; the history keeps it, and recordings, the
// terminal and the dashboard show it. A Run shares the objects, requests and responses of the reconcile rather than
// copying them, so recording is cheap. Render and Masked make of them what others read.
package record

import (
	"encoding/json"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Outcome is the outcome of a run: one of these, or of a review.
type Outcome = string

// The outcomes, as used in metric labels.
const (
	// Skipped runs found no changes to process.
	Skipped Outcome = "skipped"
	// Synced runs completed.
	Synced Outcome = "synced"
	// Postponed runs are requeued: an object changed concurrently, or the hook requested more time.
	Postponed Outcome = "postponed"
	// Failed runs are retried with backoff, or when their input changes.
	Failed Outcome = "failed"
	// Deleted records a deletion event from the watch, not a run.
	Deleted Outcome = "deleted"
)

// Run is one reconcile, handler call or review. What has no JSON is what the loop has, of which Render makes the rest.
// The receiver of a run owns it and its steps; the objects, requests and responses they refer to are shared.
type Run struct {
	// ID is that in the history.
	ID         uint64 `json:"id"`
	Controller string `json:"controller"`
	Process    string `json:"process"`
	// Object is the object. Its UID aliases the object's memory, so storing it retains the whole object.
	Object object.Ref `json:"object"`
	// Causes are the triggers, such as "child Pod shop/a changed". Queued are the queued causes, and Trigger is the
	// cause of a run that was not queued, such as "daemon watch wrote".
	Causes  []string     `json:"causes"`
	Queued  queue.Causes `json:"-"`
	Trigger string       `json:"-"`
	// Attempt is the number of consecutive failures before this run.
	Attempt int `json:"attempt,omitempty"`
	// TraceID is the ID of the trace, if it was sampled.
	TraceID string `json:"traceID,omitempty"`
	// Began, the time spent in the queue, and the duration of the run.
	Began     time.Time     `json:"began"`
	QueuedFor time.Duration `json:"queuedForNanoseconds"`
	Took      time.Duration `json:"tookNanoseconds"`
	// Outcome is an Outcome; for a review "allowed", "mutated", "denied", or "failed" without a response.
	Outcome Outcome `json:"outcome"`
	// Err is the error of a failed or postponed run; nil otherwise. Error is its text, and Fault classifies it.
	Err   error          `json:"-"`
	Error string         `json:"error,omitempty"`
	Fault *failure.Fault `json:"fault,omitempty"`
	// Next is the next scheduled run; zero if there is none, only an event triggers one, or a later run has started.
	Next time.Time `json:"next,omitzero"`
	// Noops is the number of runs without changes before this one.
	Noops int    `json:"noops,omitempty"`
	Steps []Step `json:"steps"`
	// Secrets are values of Secrets that the run has seen, which may be in none of its steps; nil if unknown.
	Secrets *redact.Values `json:"-"`
}

// Deletion returns the record of a deletion event from the watch.
func Deletion(program string, resource object.Resource, o *object.Object, at time.Time) Run {
	run := Run{Controller: program, Object: resource.Ref(o.Namespace(), o.Name()), Began: at, Outcome: Deleted}
	run.Object.UID = o.UID()
	return run
}

// Review returns the review of a run; nil if the run is none, or is not rendered.
func (r *Run) Review() *Review {
	if len(r.Steps) == 1 && r.Steps[0].Call != nil {
		return r.Steps[0].Call.Review
	}
	return nil
}

// Step is one step of a run. Exactly one of its pointers is set.
type Step struct {
	// At is the time from the start of the run to the start of the step.
	At    time.Duration `json:"atNanoseconds"`
	Took  time.Duration `json:"tookNanoseconds"`
	Call  *Call         `json:"call,omitempty"`
	Plan  *Planned      `json:"plan,omitempty"`
	Write *Write        `json:"write,omitempty"`
	Event *hook.Event   `json:"event,omitempty"`
}

// Call is a call of a hook, handler or webhook.
type Call struct {
	// Name is "sync", "finalize", "customize", or the name of a handler or review; Reason is why a handler was called.
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty"`
	// Version is the version of the hooks of a controller with rollouts.
	Version string `json:"version,omitempty"`
	// Code identifies the code that ran; nil if it is not known.
	Code *call.Code `json:"code,omitempty"`
	// Revision is the revision of the parent in the request; nil if the controller keeps none.
	Revision *Revision `json:"revision,omitempty"`
	// Review is set for an admission webhook. Unverified means that its caller did not prove to be the API server.
	Review     *Review        `json:"review,omitempty"`
	Unverified bool           `json:"-"`
	Err        error          `json:"-"`
	Error      string         `json:"error,omitempty"`
	Fault      *failure.Fault `json:"fault,omitempty"`
	// Sent is the request, and Received the response, which is empty after an error. Request and Response are their
	// JSON; only in whole runs. Dropped reports that they are no longer kept.
	Sent     Request         `json:"-"`
	Received Response        `json:"-"`
	Request  json.RawMessage `json:"request,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
	Dropped  bool            `json:"dropped,omitempty"`
	// Printed is what the hook printed; nil if it cannot print. Output has the lines, and OutputMore is the number of
	// further ones; only in whole runs. OutputHidden reports that they are not kept, since they may have values of
	// Secrets.
	Printed      *call.Output `json:"-"`
	Output       []string     `json:"output,omitempty"`
	OutputMore   int          `json:"outputMore,omitempty"`
	OutputHidden bool         `json:"outputHidden,omitempty"`
	// Previous is the ID of the previous run with a comparable call; 0 if there is none.
	Previous uint64 `json:"previous,omitempty"`
}

// Revision identifies a ControllerRevision of the parent.
type Revision struct {
	Name   string `json:"name"`
	Number int64  `json:"number"`
	// Previous means that a newer revision exists; some children still use this one.
	Previous bool `json:"former,omitempty"`
}

// ComparableTo reports whether to show the difference between the request of the call and an earlier one of the same
// hook. Requests at a previous revision compare only with the same revision; requests at the latest compare with any
// latest, because the difference is the user's edit.
func (c *Call) ComparableTo(earlier *Call) bool {
	now, then := c.revision(), earlier.revision()
	switch {
	case earlier.Name != c.Name:
		return false
	case now.Previous:
		return then.Name == now.Name
	}
	return !then.Previous
}

func (c *Call) revision() Revision {
	if c.Revision == nil {
		return Revision{}
	}
	return *c.Revision
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

// Review is the request and decision of an admission webhook.
type Review struct {
	// Operation is "create", "update", "delete" or "connect".
	Operation string `json:"operation"`
	// Subresource is set for a review of a subresource, GenerateName if the object has no name yet.
	Subresource  string `json:"subresource,omitempty"`
	GenerateName string `json:"generateName,omitempty"`
	DryRun       bool   `json:"dryRun,omitempty"`
	// User sent the request, if the review is from the API server; Unverified means that its caller did not prove that.
	User       string `json:"user,omitempty"`
	Unverified bool   `json:"unverified,omitempty"`
	// Denied reports a denial, with Message and Reason.
	Denied  bool   `json:"denied,omitempty"`
	Message string `json:"message,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Warnings were shown to the user.
	Warnings []string `json:"warnings,omitempty"`
	// Fields are the first fields that the webhook changed; MoreFields reports that Fields, or
	// Changes if they are set, are not all.
	Fields     []string `json:"fields,omitempty"`
	MoreFields bool     `json:"moreFields,omitempty"`
	// Groups are those of the user, Requested the fields that an update changes, and
	// Changes those that the webhook changed; only set in details.
	Groups    []string             `json:"groups,omitempty"`
	Requested []object.FieldChange `json:"requested,omitempty"`
	Changes   []object.FieldChange `json:"changes,omitempty"`
}

// Planned is a plan.
type Planned struct {
	// Stages are the planned writes as the loop has them, and Actions as others read them.
	Stages  [][]plan.Action `json:"-"`
	Actions []Action        `json:"actions,omitempty"`
	// Unchanged is the number of children without changes.
	Unchanged int `json:"unchanged,omitempty"`
}

// Action is a planned write.
type Action struct {
	// Verb is "create", "update", "apply", "delete", "adopt", "release" or "evict".
	Verb   string     `json:"verb"`
	Object object.Ref `json:"object"`
	// Reason is why, such as "missing" or "spec.image differs".
	Reason string `json:"reason,omitempty"`
	// Changes are the changed fields; only in whole runs.
	Changes []object.FieldChange `json:"changes,omitempty"`
}

// Write is a mutating request to the API server with its result.
type Write struct {
	// Verb is a verb of package plan, or "evict" or "patch".
	Verb   string     `json:"verb"`
	Object object.Ref `json:"object"`
	// Part is "status" for a write of the status, "metadata" for finalizers, labels and
	// annotations; empty for the whole object.
	Part string `json:"part,omitempty"`
	// Version is the resulting resource version, empty if the object is gone or the write
	// failed. Unchanged means that the server already had the same object.
	Version   string `json:"resourceVersion,omitempty"`
	Unchanged bool   `json:"unchanged,omitempty"`
	// Err is the error of the API server.
	Err   error          `json:"-"`
	Error string         `json:"error,omitempty"`
	Fault *failure.Fault `json:"fault,omitempty"`
	// Before and After are the object of a write outside plans. Changes are the changed fields; only in whole runs.
	Before  *object.Object       `json:"-"`
	After   *object.Object       `json:"-"`
	Changes []object.FieldChange `json:"changes,omitempty"`
}

// Patch is the verb of writes outside plans.
const Patch = "patch"

// ObjectState is a program's view of one object. A program on standby knows little.
type ObjectState struct {
	Object *object.Object
	// Error is the error of the latest run, Attempts the number of consecutive failures.
	Error    string
	Attempts int
	// Since is the time of the first of these failures.
	Since time.Time
	// Fault classifies Error; nil if unknown. Reason is that of its event.
	Fault  *failure.Fault
	Reason string
	// Failing means that the latest run failed, Paused that the object has the paused
	// annotation. Unrest describes children that flap.
	Failing, Paused bool
	Conflict        string
	// HeldDeletions is the number of held deletions of children, AllowDeletions the
	// annotation value that confirms them.
	HeldDeletions  int
	AllowDeletions string
	// LogicVersion is that of the latest response.
	LogicVersion string
	// Shadow is how the response of a new version of the hooks differs while versions are compared.
	Shadow []string
	// Locations lists the other locations that Error and Unrest may reveal: refused
	// writes, whose errors quote objects, flapping children, and those that Shadow quotes.
	Locations []Location
	// Standby means that another program reconciles the object and knows its state.
	Standby bool
	// Queued means that the object is queued, running, or has never been reconciled.
	Queued bool
	// Waiting is why a queued object waits, apart from other objects before it.
	Waiting string
	// NextRun is the next scheduled run, LastRun the latest run.
	NextRun, LastRun time.Time
	// ReconciledAt is the time of the manual reconcile request on the object that the latest run reconciled.
	ReconciledAt time.Time
	Children     int
}

// Location is all objects of a kind in a namespace. Details about it are visible only to
// users who may read these objects.
type Location struct {
	object.Kind
	Namespace string `json:"namespace,omitempty"`
}

// Child is an object that another object controls or has created.
type Child struct {
	Resource object.Resource
	Object   *object.Object
}

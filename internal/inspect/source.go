// Package inspect is the read model of a process: its controllers, the state of each of their
// objects, and the history of its runs.
//
// It holds the types of Source, which the terminal and the dashboard show, and the bounded History of runs, whose type
// is that of package record. It holds no pages, no commands, no requests to the API server, and no permission checks.
// Each process is a Source; package wire reads the Source of another process. The controllers do not know this package:
// they hand records to the manager, which implements Source.
package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// Source reads one process. Results are snapshots that belong to the caller. An error that wraps failure.ErrNotFound
// means that the controller, object or run is not known, or no longer kept.
//
// Results may contain objects that the user may not read: callers check permissions with the API server, see Redact.
type Source interface { //nolint:interfacebloat // Each method is one view of a process, and all who read one read most.
	// Name identifies the process: "setpoint", or the name of a Go program.
	Name() string
	// Process returns the state of the process.
	Process(ctx context.Context) (Process, error)
	// Controllers returns all controllers, sorted by name.
	Controllers(ctx context.Context) ([]Controller, error)
	// Objects returns the objects managed by a controller.
	Objects(ctx context.Context, controller string, q Query) (Page, error)
	// States returns the states of one object, one for each controller that manages it. No state is not an error.
	States(ctx context.Context, ref object.Ref) ([]ObjectState, error)
	// Runs returns the runs for one object by any controller, newest first.
	Runs(ctx context.Context, ref object.Ref, limit int) ([]Run, error)
	// Reviews returns the recorded reviews by a controller, newest first, without requests and
	// responses. detailed adds the groups of the users and the changed fields.
	Reviews(ctx context.Context, controller string, detailed bool) ([]Run, error)
	// Run returns one run with complete requests and responses, in which values of Secrets are masked, or have tokens in
	// their place.
	Run(ctx context.Context, id uint64, tokens bool) (Run, error)
	// Record writes a recording of what runs from now on, until the context ends.
	Record(ctx context.Context, filter recording.Filter, out io.Writer) error
	// Plan returns a dry run for an object. edited is the object as a user would store it; nil for the stored one.
	Plan(ctx context.Context, controller string, ref object.Ref, edited json.RawMessage) (Plan, error)
	// SetLogLevel sets the lowest level of log lines, one of LogLevels, until the process ends.
	SetLogLevel(ctx context.Context, level string) error
	// Diagnostic returns one of Diagnostics, which help to find a defect of the process itself.
	Diagnostic(ctx context.Context, name string) ([]byte, error)
	// Await returns once the revision differs from since, or with the error of ctx when that ends.
	Await(ctx context.Context, since uint64) (revision uint64, err error)
}

// Process is a process that runs controllers.
type Process struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Instance is the pod or the host.
	Instance string    `json:"instance"`
	Started  time.Time `json:"started"`
	// LeaderElection reports whether it is enabled, IsLeader whether this process leads,
	// and Leader is the current leader, if known.
	LeaderElection bool   `json:"leaderElection,omitempty"`
	IsLeader       bool   `json:"isLeader"`
	Leader         string `json:"leader,omitempty"`
	// HeapBytes is the live Go heap, Goroutines their number.
	HeapBytes  uint64 `json:"heapBytes"`
	Goroutines int    `json:"goroutines"`
	// LogLevel is the lowest level of log lines; empty if it cannot change.
	LogLevel string `json:"logLevel,omitempty"`
	// Selector limits the controllers of the process (--selector).
	Selector string `json:"selector,omitempty"`
	// Watches are the watches of the cache.
	Watches []Watch `json:"watches"`
	Queue   Queue   `json:"queue"`
	// History is the size of the history.
	History HistoryStats `json:"history"`
	// Series is the activity of all controllers.
	Series Series `json:"series"`
}

// Caveat returns a sentence about what this process does not know and where to find it; "" if there is nothing to say.
func (p *Process) Caveat() string {
	switch {
	case p.IsStandby() && p.Leader != "":
		return "The process " + p.Name + " is a standby; " + p.Leader + " is the leader and has the history."
	case p.IsStandby():
		return "The process " + p.Name + " is a standby; the leader has the history."
	case p.History.Off:
		return "The process " + p.Name + " keeps no history (--history-size)."
	}
	return ""
}

// CaveatFor returns the caveat for a controller. One that runs on all replicas has its history on a standby too.
func (p *Process) CaveatFor(c *Controller) string {
	if p.IsStandby() && c.AllReplicas {
		return (&Process{Name: p.Name, History: p.History}).Caveat()
	}
	return p.Caveat()
}

// IsStandby reports whether another process is the leader.
func (p *Process) IsStandby() bool { return p.LeaderElection && !p.IsLeader }

// Watch is a watch of the cache.
type Watch struct {
	// Selection is the kind with its selectors, such as "pods.v1".
	Selection string `json:"selection"`
	// Kind and Namespace are what is watched; "" is all namespaces.
	Kind      object.Kind `json:"kind,omitzero"`
	Namespace string      `json:"namespace,omitempty"`
	Objects   int         `json:"objects"`
	Bytes     int         `json:"bytes"`
	Synced    bool        `json:"synced"`
	Error     string      `json:"error,omitempty"`
}

// Queue is the state of a work queue.
type Queue struct {
	Queued int `json:"queued"`
	Active int `json:"active"`
	// BackingOff wait for a retry, Scheduled for a point in time.
	BackingOff int `json:"backingOff"`
	Scheduled  int `json:"scheduled"`
	// Oldest is how long the oldest item has been queued.
	Oldest time.Duration `json:"oldestNanoseconds"`
}

// Add adds the queue of one more controller.
func (q *Queue) Add(s queue.Stats) {
	q.Queued += s.Queued()
	q.Active += s.Active
	q.BackingOff += s.Backoff
	q.Scheduled += s.Delayed
	q.Oldest = max(q.Oldest, s.OldestWait)
}

// HistoryStats are the size and bounds of the history.
type HistoryStats struct {
	Runs     int `json:"runs"`
	Bytes    int `json:"bytes"`
	MaxBytes int `json:"maxBytes"`
	// Off reports that no history is kept.
	Off bool `json:"off,omitempty"`
}

// Controller is the state of one controller.
type Controller struct {
	// Name is the name in logs and metrics, such as "compositecontroller.setpoint.dev/teams".
	Name    string `json:"name"`
	Process string `json:"process"`
	// Declared is the object that declares the controller; nil in Go programs.
	Declared *object.Ref `json:"declared,omitempty"`
	// Kinds are the kinds it manages, Children the kinds of their children and of other
	// objects it may write. Both are unknown if it does not run.
	Kinds    []object.Kind `json:"kinds"`
	Children []object.Kind `json:"children,omitempty"`
	// RelatedKinds are the kinds of the related objects that it watches now.
	RelatedKinds []object.Kind `json:"relatedKinds,omitempty"`
	// RevisionKinds are the kinds of the history objects that its parents own, such as ControllerRevisions.
	RevisionKinds []object.Kind `json:"revisionKinds,omitempty"`
	// Description has sentences about what the controller does.
	Description []string `json:"description"`
	// Notes are warnings about an accepted spec.
	Notes []string `json:"notes,omitempty"`
	// Conditions are Accepted and Ready, and others that matter.
	Conditions []Condition `json:"conditions"`
	// Suspended reports spec.suspend.
	Suspended bool `json:"suspended,omitempty"`
	// Reviews reports that it has admission webhooks.
	Reviews bool `json:"reviews,omitempty"`
	// AllReplicas reports that every replica works, not only the leader: an admission
	// controller, which manages no objects.
	AllReplicas bool `json:"allReplicas,omitempty"`
	// Objects is the number of managed objects, of which some are Failing, Paused or
	// Conflicting. Owned is the number of children.
	Objects     int `json:"objects"`
	Owned       int `json:"owned"`
	Failing     int `json:"failing"`
	Paused      int `json:"paused"`
	Conflicting int `json:"conflicting"`
	// HeldDeletions is the number of deletions held by the deletion guard, and AllowDeletions the value of the
	// annotation setpoint.dev/allow-deletions that allows them.
	HeldDeletions  int    `json:"heldDeletions"`
	AllowDeletions string `json:"allowDeletions,omitempty"`
	Queue          Queue  `json:"queue"`
	// Rollout is where the rollout of changed hooks is; nil without spec.rollout.
	Rollout *setpoint.RolloutStatus `json:"rollout,omitempty"`
	// LogicVersion is the one that responses have; empty if they have none.
	LogicVersion string `json:"logicVersion,omitempty"`
	// Last is the latest failure, even if it is resolved.
	Last *Failure `json:"lastFailure,omitempty"`
	// Calls are the calls of hooks, handlers and reviews since the start, by outcome.
	Calls  []CallStats `json:"calls,omitempty"`
	Series Series      `json:"series"`
}

// Ready returns the condition Ready, or a zero Condition.
func (c *Controller) Ready() Condition { return c.Condition("Ready") }

// Condition returns the condition of a type, or the zero Condition.
func (c *Controller) Condition(name string) Condition {
	for _, each := range c.Conditions {
		if each.Type == name {
			return each
		}
	}
	return Condition{}
}

// Manages reports whether the controller manages objects of a kind, in any version.
func (c *Controller) Manages(kind object.Kind) bool {
	return slices.ContainsFunc(c.Kinds, func(k object.Kind) bool { return k.GroupKind() == kind.GroupKind() })
}

// Refusal returns why the controller is not accepted; "" if it is.
func (c *Controller) Refusal() string {
	if accepted := c.Condition("Accepted"); accepted.Status == "False" {
		return accepted.Message
	}
	return ""
}

// Outdated returns why the controller runs older code than that of its ConfigMap; "" if it does not.
func (c *Controller) Outdated() string {
	if accepted := c.Condition("Accepted"); accepted.Reason == setpoint.ReasonSourceOutdated {
		return accepted.Message
	}
	return ""
}

// Condition is a condition of the Kubernetes API conventions.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when the status changed; zero if unknown.
	Since time.Time `json:"since,omitzero"`
}

type (
	// Failure is a failed run.
	Failure = controller.LastError
	// Location is all objects of a kind in a namespace.
	Location = record.Location
)

// CallStats are the calls of one hook, handler or review with the same outcome.
type CallStats struct {
	// Name is "sync", "finalize", "customize", or the name of a handler or review.
	Name string `json:"name"`
	// Outcome is an HTTP status code ("0" without a response), or the result of a function.
	Outcome string `json:"outcome"`
	Count   uint64 `json:"count"`
	// P50 and P99 are percentiles of the latest calls.
	P50 time.Duration `json:"p50Nanoseconds"`
	P99 time.Duration `json:"p99Nanoseconds"`
}

// Series is recent activity, oldest interval first.
type Series struct {
	Every  time.Duration `json:"everyNanoseconds"`
	Points []Point       `json:"points"`
}

// Point is one interval.
type Point struct {
	Runs   uint32 `json:"runs"`
	Failed uint32 `json:"failed"`
	// Median is the duration of the runs with calls.
	Median time.Duration `json:"medianNanoseconds"`
}

// State is the state of an object.
type State string

// The states of an object, sorted by severity.
const (
	// StateFailing: the latest reconcile failed.
	StateFailing State = "Failing"
	// StateConflicting: Setpoint writes the object or its children again and again, because another
	// client changes them or the hook returns different responses.
	StateConflicting State = "Conflicting"
	// StateQueued: the object is in the queue, or its first reconcile is pending.
	StateQueued State = "Queued"
	// StateUnknown: another process reconciles the object, or none does while a watch of the controller is missing.
	StateUnknown State = "Unknown"
	// StatePaused: a user paused the object.
	StatePaused State = "Paused"
	// StateSynced: the object is as desired.
	StateSynced State = "Synced"
)

var states = [...]State{StateFailing, StateConflicting, StateQueued, StateUnknown, StatePaused, StateSynced}

// States returns all states, by severity.
func States() []State { return slices.Clone(states[:]) }

// Query filters and sorts objects.
type Query struct {
	// Text matches the name, the namespace or the error; lower case.
	Text string `json:"text,omitempty"`
	// ReadableKinds are the kinds, among those the controller writes, that the reader may
	// read here: Text does not match errors that may quote other kinds.
	ReadableKinds []object.Kind `json:"readableKinds,omitempty"`
	// Group, Kind, Namespace and State filter if set. A Kind without Group is of the core group.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	State     State  `json:"state,omitempty"`
	// Labels selects objects. Reviewed objects have no labels here.
	Labels LabelSelector `json:"labels,omitzero"`
	// Sort is "state" (the default), "name", "created", "run" (latest first), "children"
	// (most first), or "reconcileAt" (oldest request first, paused objects last).
	Sort    string `json:"sort,omitempty"`
	Reverse bool   `json:"reverse,omitempty"`
	// Offset and Limit select the page; the default limit is 100.
	Offset int `json:"offset,omitempty"`
	Limit  int `json:"limit,omitempty"`
}

// Page is a page of a list.
type Page struct {
	// Total is the number of all objects, Matching of those that match the query, and
	// States the number of all objects by state.
	Total    int           `json:"total"`
	Matching int           `json:"matching"`
	States   map[State]int `json:"states"`
	Objects  []ObjectState `json:"objects"`
}

// ObjectState is the state of an object under one controller.
type ObjectState struct {
	object.Ref
	Controller string    `json:"controller"`
	Process    string    `json:"process"`
	State      State     `json:"state"`
	Created    time.Time `json:"created,omitzero"`
	// Deleting reports a deletion timestamp.
	Deleting bool `json:"deleting,omitempty"`
	// Error is the error of the latest run and Attempts the number of consecutive failures,
	// of a failing object. Conflict says what is written again and again.
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// FailingSince is the time of the first of these failures.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Fault classifies Error, if that is possible. Reason is that of its event.
	Fault    *Fault `json:"fault,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Conflict string `json:"conflict,omitempty"`
	// Waiting is why a queued object waits, apart from other objects before it.
	Waiting string `json:"waiting,omitempty"`
	// LogicVersion is that of the latest response; empty if unknown.
	LogicVersion string `json:"logicVersion,omitempty"`
	// Shadow is how the response of a new version of the hooks differs while versions are compared.
	Shadow []string `json:"shadow,omitempty"`
	// Suspended reports that the controller is suspended; whether it selects the object is unknown then.
	Suspended bool `json:"suspended,omitempty"`
	// HeldDeletions is the number of held deletions of children, and AllowDeletions the
	// value of the annotation that allows them.
	HeldDeletions  int    `json:"heldDeletions,omitempty"`
	AllowDeletions string `json:"allowDeletions,omitempty"`
	// Mentions are the locations of objects that Error, Conflict and Shadow may quote.
	Mentions []Location `json:"mentions,omitempty"`
	// Next is the next scheduled run; zero if there is none.
	Next time.Time `json:"next,omitzero"`
	// Ran is the time of the latest run; zero if unknown.
	Ran time.Time `json:"ran,omitzero"`
	// ReconcileAt is the time of the latest manual reconcile request.
	ReconcileAt time.Time `json:"reconcileAt,omitzero"`
	// ReconciledAt is the time of the request that the object had at the beginning of the latest run.
	ReconciledAt time.Time `json:"reconciledAt,omitzero"`
	Children     int       `json:"children"`
	// ChildStates are the children with their health; only set by Source.States.
	ChildStates []Child `json:"childStates,omitempty"`
}

// Problem returns the error of an object, or its conflict, or why it waits.
func (s *ObjectState) Problem() string { return cmp.Or(s.Error, s.Conflict, s.Waiting) }

// Child is a child with its health.
type Child struct {
	object.Ref
	// Health is the status of kstatus: "Current", "InProgress", "Failed", "Terminating" or "Unknown".
	Health  string    `json:"health"`
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

type (
	// Run is a run of the loop, rendered.
	Run = record.Run
	// Step is a step of a run.
	Step = record.Step
	// Call is a call of a hook or handler.
	Call = record.Call
	// Revision identifies a ControllerRevision of the parent.
	Revision = record.Revision
	// Review is the review of an admission request.
	Review = record.Review
	// Planned is what a run planned.
	Planned = record.Planned
	// Action is a planned write.
	Action = record.Action
	// Write is a write, and what came of it.
	Write = record.Write
	// Change is a field that differs. A side is nil if the field is missing.
	Change = object.FieldChange
	// Event is an event sent for the object.
	Event = hook.Event
	// Code identifies the code that a call ran.
	Code = call.Code
	// Fault classifies an error.
	Fault = failure.Fault
)

// Plan is the result of a dry run.
type Plan struct {
	// Text is the output of `setpoint plan`, Report its JSON.
	Text   string          `json:"text"`
	Report json.RawMessage `json:"report"`
	// Refs are all objects in the plan. Readers who may not read all of them must not see
	// the plan. Plurals may be empty.
	Refs []object.Ref `json:"objects"`
}

// LogLevels are the levels of log lines, lowest first.
var LogLevels = []string{"debug", "info", "warn", "error"} //nolint:gochecknoglobals // A constant list.

// ParseLogLevel returns a level of LogLevels.
func ParseLogLevel(name string) (level slog.Level, err error) {
	if !slices.Contains(LogLevels, name) {
		return 0, fmt.Errorf("the log level %q does not exist: use one of %s", name, strings.Join(LogLevels, ", "))
	}
	err = level.UnmarshalText([]byte(name))
	return level, err
}

// The Diagnostics of a process.
const (
	// DiagnosticCommand is the command line, one argument a line.
	DiagnosticCommand = "command"
	// DiagnosticMetrics are the metrics in Prometheus' text format.
	DiagnosticMetrics = "metrics"
	// DiagnosticGoroutines are the stacks of goroutines, equal ones together.
	DiagnosticGoroutines = "goroutines"
)

// Diagnostics lists them.
var Diagnostics = []string{DiagnosticCommand, DiagnosticMetrics, DiagnosticGoroutines} //nolint:gochecknoglobals // A constant list.

// The healths of objects: the statuses of kstatus.
const (
	HealthCurrent     = string(status.CurrentStatus)
	HealthInProgress  = string(status.InProgressStatus)
	HealthFailed      = string(status.FailedStatus)
	HealthTerminating = string(status.TerminatingStatus)
	HealthUnknown     = string(status.UnknownStatus)
)

// HealthOf returns the health of an object as kstatus computes it from its status, and why. The message is empty if the
// object is Current. An object whose status has fields of unexpected types is Unknown.
func HealthOf(o *object.Object) (health, message string) {
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(o.JSON()); err != nil {
		return HealthUnknown, err.Error()
	}
	result, err := status.Compute(&u)
	switch {
	case err != nil:
		return HealthUnknown, "kstatus cannot read its status: " + err.Error()
	case result.Status == status.CurrentStatus:
		return HealthCurrent, ""
	}
	return string(result.Status), result.Message
}

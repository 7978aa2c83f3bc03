// Package model is the read model of what controllers do: which there are, how each
// of their objects is doing, and what was done about it, and why.
//
// Here live the words in which all of that is said (the types of Source), and the
// Book, in which runs are noted as they happen, within bounds. What must not: pages,
// commands, requests to the API server, and the rights of who reads. A process is one
// Source; another process reads it by the room inspect/wire. Engine and react know
// nothing of this room: they give accounts (trace) to whoever observes them. The host
// makes the Source of its process; ui and cli read.
package model

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Source is what can be read of one process. All of it is a snapshot: what is
// returned is the caller's. Errors that wrap ErrNotFound say that the controller, the
// object or the run is not known (any more).
//
// What is read may be about objects that the reader has no right to see: it is for
// the caller to ask the API server for that, see Redact.
type Source interface {
	// Name identifies the process among others: "setpoint", or that of a Go program.
	Name() string
	// Process is about the process as a whole.
	Process(ctx context.Context) (Process, error)
	// Controllers are all controllers of it, sorted by name.
	Controllers(ctx context.Context) ([]Controller, error)
	// Objects are those in the care of a controller.
	Objects(ctx context.Context, controller string, q Query) (Page, error)
	// States are the states of one object, one for each controller that cares for it;
	// none is no error.
	States(ctx context.Context, ref Ref) ([]ObjectState, error)
	// Runs are what was done about one object by any controller, the latest first.
	Runs(ctx context.Context, ref Ref, limit int) ([]Run, error)
	// Run is one of them with all that was asked and answered.
	Run(ctx context.Context, id uint64) (Run, error)
	// Plan asks what would be done about an object now, and does none of it.
	Plan(ctx context.Context, controller string, ref Ref) (Plan, error)
	// Await returns once something has changed since a revision, the present one at
	// once if it is another; and in any case when ctx ends, with its error.
	Await(ctx context.Context, since uint64) (revision uint64, err error)
}

// Kind is a kind of object as it is served.
type Kind struct {
	Group      string `json:"group,omitempty"`
	Version    string `json:"version"`
	Plural     string `json:"plural,omitempty"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced,omitempty"`
}

// Resource is the full name of a kind in arguments and addresses: its plural, and its group
// after a dot. Where the plural is not known it is the kind in lower case, which kubectl
// takes too.
func (k Kind) Resource() string {
	name := cmp.Or(k.Plural, strings.ToLower(k.Kind))
	if k.Group != "" {
		name += "." + k.Group
	}
	return name
}

// Ref names an object. Version and Plural may be empty where they are not known.
type Ref struct {
	Kind
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Process is one process that runs controllers.
type Process struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Instance is the pod, or the machine.
	Instance string    `json:"instance"`
	Started  time.Time `json:"started"`
	// LeaderElection says that several elect a leader, Leads that this one is it, and Leader
	// who is, as far as that is known.
	LeaderElection bool   `json:"elects,omitempty"`
	IsLeader       bool   `json:"leads"`
	Leader         string `json:"leader,omitempty"`
	// HeapBytes are live Go objects, Goroutines how many there are.
	HeapBytes  uint64 `json:"heapBytes"`
	Goroutines int    `json:"goroutines"`
	// Selector is what narrows the controllers that it runs (--selector); "" for none.
	Selector string `json:"selector,omitempty"`
	// Watches are what the cache holds.
	Watches []Watch `json:"watches"`
	Queue   Queue   `json:"queue"`
	// History is what is kept of runs.
	History HistoryStats `json:"book"`
	// Series is that of all controllers together.
	Series Series `json:"series"`
}

// Caveat says in a sentence what of its objects this process cannot tell, and who can; ""
// for nothing.
func (p *Process) Caveat() string {
	switch {
	case p.IsStandby() && p.Leader != "":
		return "The process " + p.Name + " stands by: " + p.Leader + " does the work, and has the timeline."
	case p.IsStandby():
		return "The process " + p.Name + " stands by: the one that leads does the work, and has the timeline."
	case p.History.Off:
		return "The process " + p.Name + " keeps no history (--history-size)."
	}
	return ""
}

// CaveatFor is the Caveat about a controller: of one that is at work in each replica, a
// process that stands by can tell what it did itself.
func (p *Process) CaveatFor(c *Controller) string {
	if p.IsStandby() && c.AllReplicas {
		return (&Process{Name: p.Name, History: p.History}).Caveat()
	}
	return p.Caveat()
}

// IsStandby says that another process does the work of this one.
func (p *Process) IsStandby() bool { return p.LeaderElection && !p.IsLeader }

// Watch is one watch of the cache.
type Watch struct {
	// Selection is such as "pods.v1" with what narrows it.
	Selection string `json:"selection"`
	// Kind and Namespace are what is watched; without a namespace all of them are.
	Kind      Kind   `json:"kind,omitzero"`
	Namespace string `json:"namespace,omitempty"`
	Objects   int    `json:"objects"`
	Bytes     int    `json:"bytes"`
	Synced    bool   `json:"synced"`
	Error     string `json:"error,omitempty"`
}

// Queue is how much work is waiting.
type Queue struct {
	Queued int `json:"queued"`
	Active int `json:"working"`
	// BackingOff wait for the end of a backoff, Delayed for a moment.
	BackingOff int `json:"retrying"`
	Scheduled  int `json:"delayed"`
	// Oldest is how long one has been queued.
	Oldest time.Duration `json:"oldestNanoseconds"`
}

// HistoryStats say what the Book holds, and may hold.
type HistoryStats struct {
	Runs     int `json:"runs"`
	Bytes    int `json:"bytes"`
	MaxBytes int `json:"maxBytes"`
	// Off says that it takes note of nothing.
	Off bool `json:"off,omitempty"`
}

// Controller is one controller and how it is doing.
type Controller struct {
	// Name as in logs and metrics, such as "compositecontroller.setpoint.dev/teams".
	Name    string `json:"name"`
	Process string `json:"process"`
	// Declared is the object that declares it; nil for one of a Go program.
	Declared *Ref `json:"declared,omitempty"`
	// Kinds are those of its objects, Children those of what it makes of them, and of
	// what else it may write. Of one that does not run, neither is known.
	Kinds    []Kind `json:"kinds"`
	Children []Kind `json:"children,omitempty"`
	// RevisionKinds are the kinds in which it keeps what it has to remember of its objects:
	// ControllerRevisions, which the objects own.
	RevisionKinds []Kind `json:"keeps,omitempty"`
	// Description say what it does, a sentence each.
	Description []string `json:"words"`
	// Notes are what its user should know although it is accepted.
	Notes []string `json:"notes,omitempty"`
	// Conditions are Accepted and Ready, and Settled where there is something to say.
	Conditions []Condition `json:"conditions"`
	// Suspended says that its spec suspends it.
	Suspended bool `json:"suspended,omitempty"`
	// AllReplicas says that each replica does all of its work, leading or not: it reviews
	// what others write, and has no objects in its care.
	AllReplicas bool `json:"everywhere,omitempty"`
	// Objects is how many it cares for, and of those: Failing, Paused by a user, and
	// Unsettled, which are written again and again. Owned is how many children.
	Objects     int `json:"objects"`
	Owned       int `json:"owned"`
	Failing     int `json:"failing"`
	Paused      int `json:"paused"`
	Conflicting int `json:"unsettled"`
	// HeldDeletions is how many deletions the deletion guard holds, and AllowDeletions the value
	// that confirms them, of the annotation setpoint.dev/allow-deletions.
	HeldDeletions  int    `json:"deletionsHeld"`
	AllowDeletions string `json:"allowDeletions,omitempty"`
	Queue          Queue  `json:"queue"`
	// Last is the latest failure, also after it was overcome.
	Last *Failure `json:"lastFailure,omitempty"`
	// Calls are those of hooks, handlers and reviews since the start, by how they
	// ended.
	Calls  []CallStats `json:"calls,omitempty"`
	Series Series      `json:"series"`
}

// Ready is the condition of that type; the zero Condition if there is none.
func (c *Controller) Ready() Condition {
	for _, each := range c.Conditions {
		if each.Type == "Ready" {
			return each
		}
	}
	return Condition{}
}

// Refusal is why the controller does not run: its declaration is refused; "" if it is not.
func (c *Controller) Refusal() string {
	for _, each := range c.Conditions {
		if each.Type == "Accepted" && each.Status == "False" {
			return each.Message
		}
	}
	return ""
}

// Condition is one condition, as the API conventions have it.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when the status changed last; zero where nobody knows.
	Since time.Time `json:"since,omitzero"`
}

// Failure is what went wrong with which object, and when.
type Failure struct {
	Message string    `json:"message"`
	Object  string    `json:"object"`
	Time    time.Time `json:"time"`
}

// Location is all objects of a kind in a namespace.
type Location struct {
	Kind
	Namespace string `json:"namespace,omitempty"`
}

// CallStats are the calls of one hook, handler or review that ended alike.
type CallStats struct {
	// Name is "sync", "finalize", "customize", the name of a handler, or of a review.
	Name string `json:"what"`
	// Outcome is an HTTP status code ("0" without an answer), or how a function ended.
	Outcome string `json:"outcome"`
	Count   uint64 `json:"count"`
	// P50 and P99 are of the latest calls.
	P50 time.Duration `json:"p50Nanoseconds"`
	P99 time.Duration `json:"p99Nanoseconds"`
}

// Series is what happened lately, an interval after the other, the latest last.
type Series struct {
	Every  time.Duration `json:"everyNanoseconds"`
	Points []Point       `json:"points"`
}

// Point is one interval.
type Point struct {
	Runs   uint32 `json:"runs"`
	Failed uint32 `json:"failed"`
	Calls  uint32 `json:"calls"`
	Writes uint32 `json:"writes"`
	// Took is how long the runs that asked somebody took: the median, and the
	// longest.
	Median  time.Duration `json:"medianNanoseconds"`
	Longest time.Duration `json:"longestNanoseconds"`
}

// State is how an object is doing, in a word.
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
	// StateUnknown: another process reconciles the object, or none does while a watch of the
	// controller is missing.
	StateUnknown State = "Unknown"
	// StatePaused: a user paused the object.
	StatePaused State = "Paused"
	// StateSynced: the object is as desired.
	StateSynced State = "Synced"
)

// States are all of them, in their order.
func States() []State {
	return []State{StateFailing, StateConflicting, StateQueued, StateUnknown, StatePaused, StateSynced}
}

// Query says which objects are wanted, and in what order.
type Query struct {
	// Text is contained in the name or the namespace, or in the error; in lower case.
	Text string `json:"text,omitempty"`
	// ReadableKinds are the kinds, among those that the controller writes, which the reader may
	// read where this is about: errors that may quote others are not looked into.
	ReadableKinds []Kind `json:"reads,omitempty"`
	// Kind with its Group, Namespace, State: all if empty. A Kind without a Group is one
	// of the core group.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	State     State  `json:"state,omitempty"`
	// Sort is "state" (if empty), "name", "created", "run" (the latest first), "children"
	// (the most first), or "asked" (those first that nobody ever asked to run, those last
	// that are Paused); Reverse turns it round.
	Sort    string `json:"sort,omitempty"`
	Reverse bool   `json:"reverse,omitempty"`
	// Offset and Limit say which page; 100 objects if there is no limit.
	Offset int `json:"offset,omitempty"`
	Limit  int `json:"limit,omitempty"`
}

// Page is a part of a list.
type Page struct {
	// Total is how many objects there are, Matching how many a Query is about, and
	// States how many of all there are of each.
	Total    int `json:"total"`
	Matching int `json:"matching"`
	// Reviews says that the objects are those of reviews that are kept.
	Reviews bool          `json:"reviews,omitempty"`
	States  map[State]int `json:"states"`
	Objects []ObjectState `json:"objects"`
}

// ObjectState is how an object is doing in the care of one controller.
type ObjectState struct {
	Ref
	Controller string    `json:"controller"`
	Process    string    `json:"process"`
	State      State     `json:"state"`
	Created    time.Time `json:"created,omitzero"`
	// Deleting says that it is going away.
	Deleting bool `json:"deleting,omitempty"`
	// Error is what the latest run failed with, Attempts how many did in a row; only of
	// one that is Failing. Unrest is what does not settle.
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// FailingSince is when the first of these attempts failed.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Fault is what of that failed; nil where no more is known than the Error.
	Fault    *Fault `json:"fault,omitempty"`
	Conflict string `json:"unrest,omitempty"`
	// Suspended says that its controller does nothing, as its spec asks. Whether it
	// selects the object is not known then.
	Suspended bool `json:"suspended,omitempty"`
	// ReviewOutcome is what came of the latest review, of a controller that does nothing but
	// review: "allowed", "mutated", "denied" or "error"; Error is why then. Reviews is how
	// many are kept.
	ReviewOutcome string `json:"reviewed,omitempty"`
	Reviews       int    `json:"reviews,omitempty"`
	// HeldDeletions is how many deletions of its children the deletion guard holds, and
	// AllowDeletions the value that confirms these, of the annotation on the object.
	HeldDeletions  int    `json:"deletionsHeld,omitempty"`
	AllowDeletions string `json:"allowDeletions,omitempty"`
	// Mentions is what Error and Unrest may quote, beside the object itself.
	Mentions []Location `json:"among,omitempty"`
	// Next is when it is looked at again although nothing happens; zero for never.
	Next time.Time `json:"next,omitzero"`
	// Ran is when it was last run; zero if that is not known any more.
	Ran time.Time `json:"ran,omitzero"`
	// ReconcileAt is when a user asked for a run by an annotation, if that says a time.
	ReconcileAt time.Time `json:"asked,omitzero"`
	Children    int       `json:"children"`
	// ChildStates are the children, with how they are doing; only of About.
	ChildStates []Child `json:"family,omitempty"`
}

// Child is an object that a controller made, or is responsible for.
type Child struct {
	Ref
	// Health is "Current", "HealthInProgress", "Failed", "Terminating" or "Unknown", as
	// kstatus has it, and Message why.
	Health  string    `json:"health"`
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

// Run is what was done about one object at one time.
type Run struct {
	ID         uint64 `json:"id"`
	Controller string `json:"controller"`
	Process    string `json:"process"`
	Object     Ref    `json:"object"`
	// Causes are what brought it about, in words, such as "child Pod shop/a changed".
	Causes []string `json:"causes"`
	// Attempt is how many runs had failed in a row before.
	Attempt   int           `json:"attempt,omitempty"`
	Began     time.Time     `json:"began"`
	QueuedFor time.Duration `json:"waitedNanoseconds"`
	Took      time.Duration `json:"tookNanoseconds"`
	// Outcome is "synced", "postponed", "failed" or "skipped", or "deleted" for the record of
	// the deletion of the object, which is no run; for a review "allowed",
	// "mutated" or "denied", or "error" where there was no verdict.
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	Fault   *Fault `json:"fault,omitempty"`
	// Next is when it comes again; zero where something new has to happen, and once
	// another run came.
	Next time.Time `json:"next,omitzero"`
	// Noops is how many runs came before, since the run below, that found nothing new.
	Noops int    `json:"quiet,omitempty"`
	Steps []Step `json:"steps"`
}

// Step is one thing that a run did; one of its parts is set.
type Step struct {
	At    time.Duration `json:"atNanoseconds"`
	Took  time.Duration `json:"tookNanoseconds"`
	Call  *Call         `json:"ask,omitempty"`
	Plan  *Planned      `json:"plan,omitempty"`
	Write *Write        `json:"write,omitempty"`
	Event *Event        `json:"event,omitempty"`
}

// Call is a question and its answer.
type Call struct {
	// Name is "sync", "finalize", "customize", the name of a handler, or of a review;
	// Reason what a handler was told of.
	Name   string `json:"what"`
	Reason string `json:"reason,omitempty"`
	// Revision is the revision of the parent that the hook was shown; nil where its
	// controller keeps none.
	Revision *Revision `json:"revision,omitempty"`
	// Review is what it was about and came to, of a webhook of admission; else nil.
	Review *Review `json:"review,omitempty"`
	Error  string  `json:"error,omitempty"`
	Fault  *Fault  `json:"fault,omitempty"`
	// Request and Reply are JSON as hooks see it; only of Source.Run. The values of
	// Secrets are masked. Where there is too much to keep, Dropped says so.
	Request  json.RawMessage `json:"request,omitempty"`
	Response json.RawMessage `json:"reply,omitempty"`
	Dropped  bool            `json:"dropped,omitempty"`
	// Previous is the id of the run of the same object in which the same was asked
	// before; 0 for none that is kept.
	Previous uint64 `json:"previous,omitempty"`
}

// Planned is what was decided.
type Planned struct {
	Actions []Action `json:"actions,omitempty"`
	// Unchanged is how many children were as they should be.
	Unchanged int `json:"equal,omitempty"`
}

// Action is one write that was decided.
type Action struct {
	// Verb is "create", "update", "apply", "delete", "adopt", "release" or "evict".
	Verb   string `json:"verb"`
	Object Ref    `json:"object"`
	// Reason says why, such as "missing" or "spec.image differs".
	Reason string `json:"reason,omitempty"`
	// Changes are the fields that it is about; only of Source.Run.
	Changes []Change `json:"changes,omitempty"`
}

// Change is a field that differs. A side is nil if the field is missing.
type Change = object.FieldChange

// Write is a write and what the API server answered.
type Write struct {
	Verb   string `json:"verb"`
	Object Ref    `json:"object"`
	// Part is "status" where that alone was written.
	Part string `json:"part,omitempty"`
	// Version is the resource version that came of it, Unchanged says that it made no
	// difference.
	Version   string `json:"resourceVersion,omitempty"`
	Unchanged bool   `json:"unchanged,omitempty"`
	// Error is what the API server refused it with.
	Error string `json:"error,omitempty"`
	Fault *Fault `json:"fault,omitempty"`
	// Changes are the fields that it made another, where no Action says them; only of
	// Source.Run.
	Changes []Change `json:"changes,omitempty"`
}

// Event is what was told at the object.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Plan is what would be done about an object now.
type Plan struct {
	// Text is for people, as `setpoint plan` prints it, Report the same as its JSON.
	Text   string          `json:"text"`
	Report json.RawMessage `json:"report"`
	// Refs are all objects that these are about, the one itself among them: who may not
	// read one of them is not to see either form. Plurals may be missing. A process of
	// another version may say none.
	Refs []Ref `json:"objects"`
}

package inspect

import (
	"slices"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

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

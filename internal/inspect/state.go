package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

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

// RefOf returns the reference of an object.
func RefOf(r object.Resource, o *object.Object) object.Ref {
	ref := r.Ref(o.Namespace(), o.Name())
	ref.UID = strings.Clone(o.UID())
	return ref
}

// StateOf returns the state of an object.
func StateOf(c *record.ObjectState) State {
	switch {
	case c.Paused:
		return StatePaused
	case c.Standby:
		return StateUnknown
	case c.Failing:
		return StateFailing
	case c.Conflict != "":
		return StateConflicting
	case c.Queued:
		return StateQueued
	}
	return StateSynced
}

// Child is a child with its health.
type Child struct {
	object.Ref
	// Health is the status of kstatus: "Current", "InProgress", "Failed", "Terminating" or "Unknown".
	Health  string    `json:"health"`
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

// ChildOf converts a child.
func ChildOf(c record.Child) Child {
	child := Child{Ref: RefOf(c.Resource, c.Object), Created: c.Object.Time("creationTimestamp")}
	child.Health, child.Message = HealthOf(c.Object)
	return child
}

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

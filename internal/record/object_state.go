package record

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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

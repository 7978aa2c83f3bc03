package record

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// ObjectState is how one object is doing in the care of a program, as far as the program
// remembers. Standing by, it remembers little.
type ObjectState struct {
	Object *object.Object
	// Error is what the latest run failed with, Attempts how many did in a row.
	Error    string
	Attempts int
	// Since is when the first of them failed.
	Since time.Time
	// Fault is what of that failed; nil where no more is known than the Error.
	Fault *Fault
	// Failing says that the latest run failed; Paused that a user wants the object
	// left alone; Unrest what of it does not settle.
	Failing, Paused bool
	Conflict        string
	// HeldDeletions is how many deletions of its children are held, AllowDeletions the value that
	// confirms them.
	HeldDeletions  int
	AllowDeletions string
	// Locations says what else Error and Unrest may tell of: where writes were refused, the
	// answers to which quote objects, and what is written again and again.
	Locations []Location
	// Standby says that the program does not work here: how the object is doing, whoever
	// does work for it knows.
	Standby bool
	// Queued says that it is queued or being run, or was never run.
	Queued bool
	// NextRun is when it comes again although nothing happens, Ran when it was last run.
	NextRun, LastRun time.Time
	Children         int
}

// Location is all objects of a kind in a namespace: who may not read them is not to be told
// of one.
type Location struct {
	Resource  object.Resource
	Namespace string
}

// Child is an object that another one has made, or is responsible for.
type Child struct {
	Resource object.Resource
	Object   *object.Object
}

package trace

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Care is how one object is doing in the care of a program, as far as the program
// remembers. Standing by, it remembers little.
type Care struct {
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
	Unrest          string
	// Held is how many deletions of its children are held, AllowDeletions the value that
	// confirms them.
	Held           int
	AllowDeletions string
	// Among says what else Error and Unrest may tell of: where writes were refused, the
	// answers to which quote objects, and what is written again and again.
	Among []Place
	// Idle says that the program does not work here: how the object is doing, whoever
	// does work for it knows.
	Idle bool
	// Waiting says that it is queued or being run, or was never run.
	Waiting bool
	// Next is when it comes again although nothing happens, Ran when it was last run.
	Next, Ran time.Time
	Children  int
}

// Place is all objects of a kind in a namespace: who may not read them is not to be told
// of one.
type Place struct {
	Resource  object.Resource
	Namespace string
}

// Child is an object that another one has made, or is responsible for.
type Child struct {
	Resource object.Resource
	Object   *object.Object
}

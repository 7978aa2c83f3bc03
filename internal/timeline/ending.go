package timeline

import (
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Ending is the deletion of an object: requested, or over.
type Ending struct {
	// Gone says that the object does not exist any more. When that came about is not known.
	Gone bool `json:"gone,omitempty"`
	// Requested is when the deletion was; zero if that is not known.
	Requested time.Time `json:"requested,omitzero"`
	// Finalizers are what it waits for.
	Finalizers []string `json:"finalizers,omitempty"`
}

// Deleting is the ending of an object that exists, by its metadata; nil where its deletion
// was not requested. Its timestamp is when the grace period ends.
func Deleting(timestamp time.Time, grace *int64, finalizers []string) *Ending {
	if timestamp.IsZero() {
		return nil
	}
	if grace != nil {
		timestamp = timestamp.Add(-time.Duration(*grace) * time.Second)
	}
	return &Ending{Requested: timestamp, Finalizers: finalizers}
}

// Gone is the ending of an object that does not exist, by its runs; nil where these do not
// say that it ever did: reviews come before an object is stored.
func Gone(runs []inspect.Run) *Ending {
	if !slices.ContainsFunc(runs, func(r inspect.Run) bool { return ReviewOf(&r) == nil }) {
		return nil
	}
	return &Ending{Gone: true}
}

// String is the ending in words.
func (e *Ending) String() string {
	switch {
	case e.Gone:
		return "Deleted"
	case len(e.Finalizers) == 0:
		return "Deletion requested"
	}
	noun := "finalizer "
	if len(e.Finalizers) > 1 {
		noun = "finalizers "
	}
	return "Deletion requested, waiting for the " + noun + strings.Join(e.Finalizers, ", ")
}

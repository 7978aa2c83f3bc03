package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Ending is the deletion of an object: requested, or over.
type Ending struct {
	// Gone says that the object does not exist any more, At since when and By who deleted it,
	// as far as that is known.
	Gone bool      `json:"gone,omitempty"`
	At   time.Time `json:"at,omitzero"`
	By   string    `json:"by,omitempty"`
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

// Gone is the ending of an object that does not exist, by its runs, the latest first; nil
// where these do not say that it ever did: reviews come before an object is stored.
func Gone(runs []inspect.Run) *Ending {
	if !slices.ContainsFunc(runs, func(r inspect.Run) bool { return ReviewOf(&r) == nil }) {
		return nil
	}
	ending := &Ending{Gone: true}
	at := slices.IndexFunc(runs, func(r inspect.Run) bool { return Deletes(&r) })
	another := func(r inspect.Run) bool { return r.Object.UID != "" && r.Object.UID != runs[at].Object.UID }
	if at >= 0 && !slices.ContainsFunc(runs[:at], another) {
		ending.At, ending.By = runs[at].Began, DeletedBy(runs, &runs[at])
	}
	return ending
}

// Deletes says that a run is none, but the record of the deletion of its object.
func Deletes(run *inspect.Run) bool { return run.Outcome == string(trace.Deleted) }

// DeletedBy is who deleted the object, where a review of the request is kept; "" if that is
// not known. Of several requests, the last one before the object was gone counts.
func DeletedBy(runs []inspect.Run, deletion *inspect.Run) string {
	for i := range runs {
		r := &runs[i]
		switch review := ReviewOf(r); {
		case r.Began.After(deletion.Began):
		case Deletes(r) && r.Object.UID != deletion.Object.UID:
			return ""
		case review != nil && review.Operation == "delete" && !review.Denied && !review.DryRun && r.Error == "" && len(r.Causes) > 0:
			return strings.TrimPrefix(r.Causes[0], "delete by ")
		}
	}
	return ""
}

// Ordered are the runs of one object in all processes, the latest first. The deletion of an
// object is recorded by each controller that watched it; of these records the first stays.
func Ordered(runs []inspect.Run) []inspect.Run {
	slices.SortStableFunc(runs, func(a, b inspect.Run) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.ID, a.ID))
	})
	seen := map[string]bool{}
	for i, run := range slices.Backward(runs) {
		if Deletes(&run) && seen[run.Object.UID] {
			runs = slices.Delete(runs, i, i+1)
		}
		seen[run.Object.UID] = seen[run.Object.UID] || Deletes(&run)
	}
	return runs
}

// Deleted says by whom an object was deleted, where that is known.
func Deleted(by string) string {
	if by == "" {
		return "Deleted"
	}
	return "Deleted by " + by
}

// String is the ending in words.
func (e *Ending) String() string {
	switch {
	case e.Gone:
		return Deleted(e.By)
	case len(e.Finalizers) == 0:
		return "Deletion requested"
	}
	noun := "finalizer "
	if len(e.Finalizers) > 1 {
		noun = "finalizers "
	}
	return "Deletion requested, waiting for the " + noun + strings.Join(e.Finalizers, ", ")
}

package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Deletion is the deletion of an object, pending or completed.
type Deletion struct {
	// Gone reports that the object is deleted, At is when, and By is the user who deleted it, if known.
	Gone bool      `json:"gone,omitempty"`
	At   time.Time `json:"at,omitzero"`
	By   string    `json:"by,omitempty"`
	// Requested is when the deletion was requested; zero if unknown.
	Requested time.Time `json:"requested,omitzero"`
	// Finalizers are the remaining finalizers.
	Finalizers []string `json:"finalizers,omitempty"`
}

// PendingDeletion returns the deletion of an existing object; nil if none was requested.
// The deletion timestamp is the end of the grace period.
func PendingDeletion(timestamp time.Time, grace *int64, finalizers []string) *Deletion {
	if timestamp.IsZero() {
		return nil
	}
	if grace != nil {
		timestamp = timestamp.Add(-time.Duration(*grace) * time.Second)
	}
	return &Deletion{Requested: timestamp, Finalizers: finalizers}
}

// CompletedDeletion returns the deletion of a missing object from its runs, newest first;
// nil if they do not show that it existed: reviews precede creation.
func CompletedDeletion(runs []inspect.Run) *Deletion {
	if !slices.ContainsFunc(runs, func(r inspect.Run) bool { return r.Review() == nil }) {
		return nil
	}
	ending := &Deletion{Gone: true}
	at := slices.IndexFunc(runs, func(r inspect.Run) bool { return IsDeletion(&r) })
	another := func(r inspect.Run) bool { return r.Object.UID != "" && r.Object.UID != runs[at].Object.UID }
	if at >= 0 && !slices.ContainsFunc(runs[:at], another) {
		ending.At, ending.By = runs[at].Began, DeletedBy(runs, &runs[at])
	}
	return ending
}

// IsDeletion reports whether a run is the record of a deletion.
func IsDeletion(run *inspect.Run) bool { return run.Outcome == record.Deleted }

// DeletedBy returns the user of the last delete request before the deletion, if its review is recorded.
func DeletedBy(runs []inspect.Run, deletion *inspect.Run) string {
	for i := range runs {
		r := &runs[i]
		switch review := r.Review(); {
		case r.Began.After(deletion.Began):
		case IsDeletion(r) && r.Object.UID != deletion.Object.UID:
			return ""
		case review != nil && review.Operation == "delete" && !review.Denied && !review.DryRun && r.Error == "" && len(r.Causes) > 0:
			return strings.TrimPrefix(r.Causes[0], "delete by ")
		}
	}
	return ""
}

// Sort sorts the runs of an object in all processes, newest first. Each controller records
// the deletion of an object; the first record stays.
func Sort(runs []inspect.Run) []inspect.Run {
	slices.SortStableFunc(runs, func(a, b inspect.Run) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.ID, a.ID))
	})
	seen := map[string]bool{}
	for i, run := range slices.Backward(runs) {
		if IsDeletion(&run) && seen[run.Object.UID] {
			runs = slices.Delete(runs, i, i+1)
		}
		seen[run.Object.UID] = seen[run.Object.UID] || IsDeletion(&run)
	}
	return runs
}

// DeletedText returns "Deleted", with the user if known.
func DeletedText(by string) string {
	if by == "" {
		return "Deleted"
	}
	return "Deleted by " + by
}

// String returns the deletion as text.
func (e *Deletion) String() string {
	switch {
	case e.Gone:
		return DeletedText(e.By)
	case len(e.Finalizers) == 0:
		return "Deletion requested"
	}
	noun := "finalizer "
	if len(e.Finalizers) > 1 {
		noun = "finalizers "
	}
	return "Deletion requested, waiting for the " + noun + strings.Join(e.Finalizers, ", ")
}

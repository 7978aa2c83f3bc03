package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Deletion is the deletion of an object: requested, or over.
type Deletion struct {
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

// PendingDeletion is the ending of an object that exists, by its metadata; nil where its deletion
// was not requested. Its timestamp is when the grace period ends.
func PendingDeletion(timestamp time.Time, grace *int64, finalizers []string) *Deletion {
	if timestamp.IsZero() {
		return nil
	}
	if grace != nil {
		timestamp = timestamp.Add(-time.Duration(*grace) * time.Second)
	}
	return &Deletion{Requested: timestamp, Finalizers: finalizers}
}

// CompletedDeletion is the ending of an object that does not exist, by its runs, the latest first; nil
// where these do not say that it ever did: reviews come before an object is stored.
func CompletedDeletion(runs []model.Run) *Deletion {
	if !slices.ContainsFunc(runs, func(r model.Run) bool { return ReviewOf(&r) == nil }) {
		return nil
	}
	ending := &Deletion{Gone: true}
	at := slices.IndexFunc(runs, func(r model.Run) bool { return IsDeletion(&r) })
	another := func(r model.Run) bool { return r.Object.UID != "" && r.Object.UID != runs[at].Object.UID }
	if at >= 0 && !slices.ContainsFunc(runs[:at], another) {
		ending.At, ending.By = runs[at].Began, DeletedBy(runs, &runs[at])
	}
	return ending
}

// IsDeletion says that a run is none, but the record of the deletion of its object.
func IsDeletion(run *model.Run) bool { return run.Outcome == string(record.Deleted) }

// DeletedBy is who deleted the object, where a review of the request is kept; "" if that is
// not known. Of several requests, the last one before the object was gone counts.
func DeletedBy(runs []model.Run, deletion *model.Run) string {
	for i := range runs {
		r := &runs[i]
		switch review := ReviewOf(r); {
		case r.Began.After(deletion.Began):
		case IsDeletion(r) && r.Object.UID != deletion.Object.UID:
			return ""
		case review != nil && review.Operation == "delete" && !review.Denied && !review.DryRun && r.Error == "" && len(r.Causes) > 0:
			return strings.TrimPrefix(r.Causes[0], "delete by ")
		}
	}
	return ""
}

// Sort are the runs of one object in all processes, the latest first. The deletion of an
// object is recorded by each controller that watched it; of these records the first stays.
func Sort(runs []model.Run) []model.Run {
	slices.SortStableFunc(runs, func(a, b model.Run) int {
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

// DeletedText says by whom an object was deleted, where that is known.
func DeletedText(by string) string {
	if by == "" {
		return "Deleted"
	}
	return "Deleted by " + by
}

// String is the ending in words.
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

// Package timeline arranges the reconcile history of an object for the terminal and the
// dashboard: which runs are grouped, which call explains a run, and with which earlier call
// it is compared.
//
// It holds pure functions on runs of package inspect, but no layout and no permission checks.
package timeline

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Entry is one run, or several consecutive ones with the same failure.
type Entry struct {
	// Run is the latest run.
	inspect.Run
	// Earlier are the runs before it, newest first.
	Earlier []inspect.Run
}

// Entries groups the runs of an object, newest first. Runs of other controllers do not separate identical failures.
func Entries(runs []inspect.Run) []Entry {
	entries := make([]Entry, 0, len(runs))
	latest := map[controllerKey]int{}
	for _, run := range runs {
		by := controllerKey{run.Process, run.Controller}
		at, known := latest[by]
		if known && SameFailure(&entries[at].Run, &run) {
			entries[at].Earlier = append(entries[at].Earlier, run)
			continue
		}
		latest[by] = len(entries)
		entries = append(entries, Entry{Run: run})
	}
	return entries
}

type controllerKey struct{ process, controller string }

// First returns the first run of the entry.
func (e *Entry) First() *inspect.Run {
	if n := len(e.Earlier); n > 0 {
		return &e.Earlier[n-1]
	}
	return &e.Run
}

// Times returns the number of runs.
func (e *Entry) Times() int { return 1 + len(e.Earlier) }

// Since returns the start of the first run.
func (e *Entry) Since() time.Time { return e.First().Began }

// SameFailure reports whether two runs failed in the same way without other writes.
func SameFailure(a, b *inspect.Run) bool {
	return a.Outcome == record.Failed && b.Outcome == record.Failed && a.Controller == b.Controller && a.Process == b.Process &&
		a.Object.UID == b.Object.UID && sameError(a, b) && !wroteOthers(a) && !wroteOthers(b)
}

// sameError compares the errors of runs. It ignores numbers, such as ports, durations and times.
func sameError(a, b *inspect.Run) bool {
	if (a.Fault == nil) != (b.Fault == nil) {
		return false
	}
	if f, g := a.Fault, b.Fault; f != nil {
		if f.Kind != g.Kind || f.Code != g.Code || f.Path != g.Path {
			return false
		}
		if slices.Contains(connectionFaults, f.Kind) {
			return true
		}
		if f.Line != g.Line {
			return false
		}
	}
	return a.Error == b.Error || withoutNumbers(a.Error) == withoutNumbers(b.Error)
}

// connectionFaults are connection errors, whose texts vary.
var connectionFaults = []failure.FaultKind{
	failure.HookUnreachable, failure.HookDisconnected, failure.HookTimeout, failure.HookUnknownHost, failure.APIServerUnavailable,
}

var numbers = regexp.MustCompile(`\d+`)

func withoutNumbers(text string) string { return numbers.ReplaceAllString(text, "0") }

// wroteOthers reports whether a run changed anything but the status of its own object.
func wroteOthers(run *inspect.Run) bool {
	return slices.ContainsFunc(run.Steps, func(s inspect.Step) bool {
		w := s.Write
		return w != nil && Changed(w) && (w.Part != "status" || w.Object.Identity() != run.Object.Identity())
	})
}

// Changed reports whether a write changed the stored object.
func Changed(w *inspect.Write) bool { return !w.Unchanged && w.Error == "" }

// Incident is a series of failed runs of one controller for an object, up to now.
type Incident struct {
	// FirstFailure is the first failed run, LastGood the successful run before it; nil if they
	// are no longer in the history.
	FirstFailure, LastGood *inspect.Run
	// Failures counts the failed runs in the history.
	Failures int
}

// Extend lets a state count from the first failure. A process that starts the controller again, such as with other code,
// counts from there.
func (i Incident) Extend(state *inspect.ObjectState) {
	if i.FirstFailure != nil && i.FirstFailure.Began.Before(state.FailingSince) {
		state.FailingSince, state.Attempts = i.FirstFailure.Began, max(state.Attempts, i.Failures)
	}
}

// IncidentOf returns the incident of an object that fails under a controller. The runs are newest
// first. Runs of an earlier object with the same name do not count.
func IncidentOf(runs []inspect.Run, state *inspect.ObjectState) (found Incident) {
	for i := range runs {
		run := &runs[i]
		another := state.UID != "" && run.Object.UID != "" && run.Object.UID != state.UID
		if run.Process != state.Process || run.Controller != state.Controller || run.Review() != nil || another {
			continue
		}
		switch run.Outcome {
		case record.Failed:
			found.FirstFailure = run
			found.Failures++
		case record.Synced:
			found.LastGood = run
			return found
		}
	}
	// Without a run before it, only the number of its attempt tells whether it was the first.
	if found.FirstFailure != nil && found.FirstFailure.Attempt > 0 {
		found.FirstFailure = nil
	}
	return found
}

// CodeChange is how the code of a call differs from that of an earlier one.
type CodeChange struct {
	// Hook is the hook, and Since since when it has other code; zero if the code is the same, or not known.
	Hook  string
	Since time.Time
	// Diff has the lines that differ; none if the texts are not known.
	Diff diff.Text
	// Unseen reports that Setpoint cannot see the code.
	Unseen bool
}

// CompareCode compares the code of two calls.
func CompareCode(before, after *inspect.Call) (c CodeChange) {
	if before == nil || after == nil || before.Code == nil || after.Code == nil {
		from, _ := LogicVersion(before)
		to, _ := LogicVersion(after)
		return CodeChange{Unseen: from == "" || to == ""} // The responses may name the versions of their code.
	}
	if before.Code.Digest == after.Code.Digest {
		return c
	}
	c.Hook, c.Since = after.Name, after.Code.Since
	if before.Code.Source != "" && after.Code.Source != "" {
		c.Diff = diff.Texts(before.Code.Source, after.Code.Source)
	}
	return c
}

// LogicVersion returns the logicVersion in the response of a call; "" for none. It is unknown without a
// whole response: the call failed, or the response is no longer in memory or hidden.
func LogicVersion(call *inspect.Call) (version string, known bool) {
	if call == nil || len(call.Response) == 0 {
		return "", false
	}
	var response struct{ LogicVersion string }
	if json.Unmarshal(call.Response, &response) != nil {
		return "", false
	}
	return response.LogicVersion, true
}

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

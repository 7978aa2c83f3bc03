// Package timeline is the reconcile history of one object as the terminal and the
// dashboard show it: which runs belong together, which request says why a run was, and
// with which earlier request it is compared.
//
// Here live pure functions on runs of package inspect. What must not: how runs are read,
// whose rights count, text layout and HTML. The packages ui and cli call it, so that both
// say the same.
package timeline

import (
	"regexp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Entry is one run, or several that failed in the same way one after the other.
type Entry struct {
	// Run is the latest of them.
	model.Run
	// Earlier are those right before it, the latest first.
	Earlier []model.Run
}

// Entries groups the runs of one object, the latest first. Between two failures that are
// grouped there may be runs of other controllers, but none of the same.
func Entries(runs []model.Run) []Entry {
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

// controllerKey is a controller of a process.
type controllerKey struct{ process, controller string }

// First is the run with which this began.
func (e *Entry) First() *model.Run {
	if n := len(e.Earlier); n > 0 {
		return &e.Earlier[n-1]
	}
	return &e.Run
}

// Times is how many runs these are.
func (e *Entry) Times() int { return 1 + len(e.Earlier) }

// Since is when the first of them began.
func (e *Entry) Since() time.Time { return e.First().Began }

// SameFailure says that two runs failed in the same way and changed nothing else: a reader who
// knows one of them knows both.
func SameFailure(a, b *model.Run) bool {
	return a.Outcome == failed && b.Outcome == failed && a.Controller == b.Controller && a.Process == b.Process &&
		a.Object.UID == b.Object.UID && sameError(a, b) && !wroteOthers(a) && !wroteOthers(b)
}

const failed = string(record.Failed)

// sameError compares what two runs failed with. Numbers differ from try to try: ports,
// durations, times of day.
func sameError(a, b *model.Run) bool {
	if (a.Fault == nil) != (b.Fault == nil) {
		return false
	}
	if f, g := a.Fault, b.Fault; f != nil {
		if f.Kind != g.Kind || f.Code != g.Code || f.Path != g.Path {
			return false
		}
		if isConnectionFault(f.Kind) {
			return true
		}
	}
	return a.Error == b.Error || withoutNumbers(a.Error) == withoutNumbers(b.Error)
}

// isConnectionFault says that a fault is one of the connection, whose words depend on the moment.
func isConnectionFault(what record.FaultKind) bool {
	return slices.Contains([]record.FaultKind{
		record.HookUnreachable, record.HookDisconnected, record.HookTimeout, record.HookUnknownHost, record.APIServerUnavailable,
	}, what)
}

var numbers = regexp.MustCompile(`\d+`)

func withoutNumbers(text string) string { return numbers.ReplaceAllString(text, "0") }

// wroteOthers says that a run wrote something beside the status of its own object.
func wroteOthers(run *model.Run) bool {
	return slices.ContainsFunc(run.Steps, func(s model.Step) bool {
		w := s.Write
		return w != nil && Changed(w) && (w.Part != "status" || !sameObject(&w.Object, &run.Object))
	})
}

// Changed says that a write changed what is stored.
func Changed(w *model.Write) bool { return !w.Unchanged && w.Error == "" }

func sameObject(a, b *model.Ref) bool {
	return a.Group == b.Group && a.Kind.Kind == b.Kind.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}

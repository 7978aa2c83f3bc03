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

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Entry is one run, or several that failed in the same way one after the other.
type Entry struct {
	// Run is the latest of them.
	inspect.Run
	// Earlier are those right before it, the latest first.
	Earlier []inspect.Run
}

// Entries groups the runs of one object, the latest first. Between two failures that are
// grouped there may be runs of other controllers, but none of the same.
func Entries(runs []inspect.Run) []Entry {
	entries := make([]Entry, 0, len(runs))
	latest := map[maker]int{}
	for _, run := range runs {
		by := maker{run.Process, run.Controller}
		at, known := latest[by]
		if known && Alike(&entries[at].Run, &run) {
			entries[at].Earlier = append(entries[at].Earlier, run)
			continue
		}
		latest[by] = len(entries)
		entries = append(entries, Entry{Run: run})
	}
	return entries
}

// maker is a controller of a process.
type maker struct{ process, controller string }

// First is the run with which this began.
func (e *Entry) First() *inspect.Run {
	if n := len(e.Earlier); n > 0 {
		return &e.Earlier[n-1]
	}
	return &e.Run
}

// Times is how many runs these are.
func (e *Entry) Times() int { return 1 + len(e.Earlier) }

// Since is when the first of them began.
func (e *Entry) Since() time.Time { return e.First().Began }

// Alike says that two runs failed in the same way and changed nothing else: a reader who
// knows one of them knows both.
func Alike(a, b *inspect.Run) bool {
	return a.Outcome == failed && b.Outcome == failed && a.Controller == b.Controller && a.Process == b.Process &&
		a.Object.UID == b.Object.UID && sameFailure(a, b) && !changes(a) && !changes(b)
}

const failed = string(trace.Failed)

// sameFailure compares what two runs failed with. Numbers differ from try to try: ports,
// durations, times of day.
func sameFailure(a, b *inspect.Run) bool {
	if (a.Fault == nil) != (b.Fault == nil) {
		return false
	}
	if f, g := a.Fault, b.Fault; f != nil {
		if f.What != g.What || f.Code != g.Code || f.Path != g.Path {
			return false
		}
		if onTheWay(f.What) {
			return true
		}
	}
	return a.Error == b.Error || unnumbered(a.Error) == unnumbered(b.Error)
}

// onTheWay says that a fault is one of the connection, whose words depend on the moment.
func onTheWay(what trace.What) bool {
	return slices.Contains([]trace.What{
		trace.HookAbsent, trace.HookBroken, trace.HookLate, trace.HookUnknown, trace.Unanswered,
	}, what)
}

var numbers = regexp.MustCompile(`\d+`)

func unnumbered(text string) string { return numbers.ReplaceAllString(text, "0") }

// changes says that a run wrote something beside the status of its own object.
func changes(run *inspect.Run) bool {
	return slices.ContainsFunc(run.Steps, func(s inspect.Step) bool {
		w := s.Write
		return w != nil && Changed(w) && (w.Part != "status" || !sameObject(&w.Object, &run.Object))
	})
}

// Changed says that a write changed what is stored.
func Changed(w *inspect.Write) bool { return !w.Unchanged && w.Error == "" }

func sameObject(a, b *inspect.Ref) bool {
	return a.Group == b.Group && a.Kind.Kind == b.Kind.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}

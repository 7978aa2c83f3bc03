package inspect

import (
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// entry is a run in the history. A copy of it may be read without the lock.
type entry struct {
	key objectKey
	id  uint64
	// noops and next are as in Run.
	noops int
	next  time.Time
	// recorded is the run, whose objects it shares. It is rendered when it is read, since few are.
	recorded *record.Run
	// rendered replaces recorded: of a run that contained Secrets with requests, responses and
	// changes, in which tokens stand for values; of a stripped run without them.
	rendered *Run
	// allowed marks a review that allowed its request, synced a run that completed.
	allowed, synced bool
	// size is the memory used.
	size int
}

// newEntry returns the entry of a run. It keeps no values of Secrets, but tokens of the key.
func newEntry(run *record.Run, key *redact.Key) *entry {
	e := &entry{key: objectKeyOf(run), next: run.NextRun, synced: run.Outcome == record.Synced}
	e.allowed = run.Outcome == ReviewAllowed || run.Outcome == ReviewMutated
	kept := *run
	kept.UID, kept.Secrets = strings.Clone(run.UID), nil
	var m memory
	m.add(&kept)
	if m.secret || run.Secrets.Found() {
		rendered := withoutSecrets(renderRun(run, true), run, key)
		rendered.hideOutput()
		e.replace(rendered)
		return e
	}
	e.recorded, e.size = &kept, entrySize+m.bytes
	return e
}

const entrySize = int(unsafe.Sizeof(entry{}))

// replace keeps a rendered run only.
func (e *entry) replace(run Run) {
	e.recorded, e.rendered = nil, &run
	e.size = entrySize + sizeOf(&run)
}

// hideOutput drops what hooks printed, since they may print what they get.
func (r *Run) hideOutput() {
	for i := range r.Steps {
		if call := r.Steps[i].Call; call != nil {
			call.Output, call.OutputMore, call.OutputHidden = nil, 0, call.Output != nil
		}
	}
}

// strip drops requests, responses and changes, and everything that references objects.
func (e *entry) strip() {
	run := e.view()
	for i := range run.Steps {
		if call := run.Steps[i].Call; call != nil {
			call.Dropped = true
		}
	}
	e.replace(run)
}

// view returns the run without requests, responses and changes. It belongs to the caller.
func (e *entry) view() Run {
	run := e.full()
	for i := range run.Steps {
		run.Steps[i].summarize()
	}
	return e.shown(run)
}

// shown returns a run of the entry without tokens.
func (e *entry) shown(run Run) Run {
	if e.rendered == nil {
		return run
	}
	return hideTokens(run)
}

// full returns the run with what was rendered of requests, responses and changes, and with tokens. It belongs
// to the caller.
func (e *entry) full() Run {
	var run Run
	if e.recorded != nil {
		run = renderRun(e.recorded, false)
	} else {
		run = e.rendered.clone()
	}
	run.ID, run.Noops, run.Next = e.id, e.noops, e.next
	return run
}

// clone copies the run and its steps.
func (r *Run) clone() Run {
	run := *r
	run.Causes, run.Steps = slices.Clone(r.Causes), slices.Clone(r.Steps)
	for i := range run.Steps {
		s := &run.Steps[i]
		s.Call, s.Plan, s.Write, s.Event = clonePtr(s.Call), clonePtr(s.Plan), clonePtr(s.Write), clonePtr(s.Event)
		if s.Plan != nil {
			s.Plan.Actions = slices.Clone(s.Plan.Actions)
		}
	}
	return run
}

// isReview reports whether the run is a review.
func (e *entry) isReview() bool {
	if e.recorded == nil {
		return e.rendered.Review() != nil
	}
	steps := e.recorded.Steps
	return len(steps) == 1 && steps[0].Call != nil && steps[0].Call.Request.Review != nil
}

// hasComparable reports whether a call of the run is comparable to a later one.
func (e *entry) hasComparable(call *Call) bool {
	if e.recorded == nil {
		return LastComparable(e.rendered.Steps, call) != nil
	}
	return slices.ContainsFunc(e.recorded.Steps, func(s record.Step) bool {
		return s.Call != nil && s.Call.Name == call.Name && revisionOf(call).ComparableTo(s.Call.Revision)
	})
}

// clonePtr copies the value of a pointer.
func clonePtr[T any](of *T) *T {
	if of == nil {
		return nil
	}
	copied := *of
	return &copied
}

// summarize removes what lists do not show.
func (s *Step) summarize() {
	switch {
	case s.Call != nil:
		s.Call.Request, s.Call.Response = nil, nil
		s.Call.Output, s.Call.OutputMore, s.Call.OutputHidden = nil, 0, false
		if s.Call.Review = clonePtr(s.Call.Review); s.Call.Review != nil {
			s.Call.Review.Groups, s.Call.Review.Requested, s.Call.Review.Changes = nil, nil, nil
		}
	case s.Plan != nil:
		for i := range s.Plan.Actions {
			s.Plan.Actions[i].Changes = nil
		}
	case s.Write != nil:
		s.Write.Changes = nil
	}
}

// LastComparable returns the last call whose request is comparable to that of another call.
func LastComparable(steps []Step, like *Call) *Call {
	for _, step := range slices.Backward(steps) {
		if step.Call != nil && step.Call.Name == like.Name && revisionOf(like).ComparableTo(revisionOf(step.Call)) {
			return step.Call
		}
	}
	return nil
}

func revisionOf(call *Call) Revision {
	if call.Revision == nil {
		return Revision{}
	}
	return *call.Revision
}

// countOf returns what a run adds to a series.
func countOf(run *record.Run) count {
	c := count{at: run.StartTime.Add(run.Duration), failed: run.Outcome == record.Failed}
	if slices.ContainsFunc(run.Steps, func(s record.Step) bool { return s.Call != nil }) {
		c.took = run.Duration
	}
	return c
}

// objectKey identifies an object in any version.
type objectKey struct {
	kind            object.GroupKind
	plural          string
	namespace, name string
}

// objectKeyOf returns the key of a run's object. Its strings do not reference the object.
func objectKeyOf(run *record.Run) objectKey {
	return objectKey{run.Resource.GroupKind(), run.Resource.Plural, run.Key.Namespace, run.Key.Name}
}

// matches reports whether a Ref, which may lack the kind or the plural, is that object. Reviews
// of subresources have another kind, such as Scale.
func (n objectKey) matches(ref object.Ref) bool {
	named := ref.Kind.Kind == n.kind.Kind || ref.Plural != "" && ref.Plural == n.plural
	return named && ref.Group == n.kind.Group && ref.Namespace == n.namespace && ref.Name == n.name
}

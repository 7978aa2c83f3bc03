package model

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// controllerHistory is what is kept of one controller: its runs by age, and by object.
type controllerHistory struct {
	oldest, newest *entry
	// full is the oldest run that has all it had in its hands; nil if none has.
	full        *entry
	bytes, runs int
	objects     map[objectKey]*objectHistory
	series      series
	calls       map[callKey]*callCounter
	// remote says that the calls of hooks are counted where they are made.
	remote bool
}

func newControllerHistory() *controllerHistory {
	return &controllerHistory{objects: map[objectKey]*objectHistory{}, calls: map[callKey]*callCounter{}}
}

// objectKey is an object, whatever its version.
type objectKey struct {
	kind            object.GroupKind
	plural          string
	namespace, name string
}

// objectKeyOf is where a run is kept. The strings are not views of anything larger.
func objectKeyOf(run *record.Run) objectKey {
	return objectKey{run.Resource.GroupKind(), run.Resource.Plural, run.Key.Namespace, run.Key.Name}
}

// matches says whether a Ref means that object. It may know the kind, or the plural.
func (n objectKey) matches(ref Ref) bool {
	named := ref.Kind.Kind == n.kind.Kind || ref.Kind.Kind == "" && ref.Plural == n.plural
	return named && ref.Group == n.kind.Group && ref.Namespace == n.namespace && ref.Name == n.name
}

// objectHistory is what is kept of one object, the oldest first.
type objectHistory struct {
	entries []*entry
	// noops is how many runs found nothing to do since the latest that did.
	noops int
}

// previous is, for each step of an entry, in which of the runs before it the same was
// asked last; 0 for none.
func (d *objectHistory) previous(of *entry) []uint64 {
	ids := make([]uint64, len(of.run.Steps))
	for i := range ids {
		if ask := of.run.Steps[i].Call; ask != nil {
			ids[i] = d.lastComparable(ask, of.id)
		}
	}
	return ids
}

// lastComparable is the last run before one in which the same was asked; 0 for none.
func (d *objectHistory) lastComparable(ask *record.Call, before uint64) uint64 {
	for _, e := range slices.Backward(d.entries) {
		if e.id < before && e.comparableTo(ask) {
			return e.id
		}
	}
	return 0
}

// clearNext notes that the object was run again, as the runs before said it would be. What is
// done beside the runs of an object, a daemon's write or a review, is none of them.
func (d *objectHistory) clearNext(run *record.Run) {
	if run.Trigger != "" {
		return
	}
	for _, e := range d.entries {
		e.run.NextRun = time.Time{}
	}
}

// addNoop counts a run that found nothing to do. Of an object of which nothing is kept,
// that is not worth keeping either.
func (s *controllerHistory) addNoop(run *record.Run) {
	if d := s.objects[objectKeyOf(run)]; d != nil {
		d.noops++
		d.clearNext(run)
	}
}

// add adds a run, which is the newest.
func (s *controllerHistory) add(e *entry) {
	name := objectKeyOf(&e.run)
	d := s.objects[name]
	if d == nil {
		d = &objectHistory{}
		s.objects[name] = d
	}
	if len(d.entries) >= maxObjectRuns {
		s.remove(d.entries[0])
		s.objects[name] = d
	}
	d.clearNext(&e.run)
	e.noops, d.noops = d.noops, 0
	d.entries = append(d.entries, e)
	e.older = s.newest
	if s.newest == nil {
		s.oldest = e
	} else {
		s.newest.newer = e
	}
	s.newest = e
	if s.full == nil {
		s.full = e
	}
	s.bytes += e.size
	s.runs++
}

// trim keeps to the bounds. A run that takes half of them alone is not worth that.
func (s *controllerHistory) trim(bytes int) {
	if e := s.newest; e.size > bytes/2 {
		if s.full == e {
			s.full = nil
		}
		s.strip(e)
	}
	for s.runs > maxControllerRuns {
		s.remove(s.oldest)
	}
	for s.bytes > bytes && s.shrink() {
	}
}

// shrink makes a little room: what old runs had in their hands goes first, then the
// runs themselves. It says whether there was anything to give.
func (s *controllerHistory) shrink() bool {
	switch {
	case s.full != nil:
		e := s.full
		s.full = e.newer
		s.strip(e)
	case s.oldest != nil:
		s.remove(s.oldest)
	default:
		return false
	}
	return true
}

// strip drops what a run had in its hands.
func (s *controllerHistory) strip(e *entry) {
	if !e.stripped {
		s.bytes -= e.size
		e.strip()
		s.bytes += e.size
	}
}

// remove drops a run, which is the oldest of its object.
func (s *controllerHistory) remove(e *entry) {
	if s.full == e {
		s.full = e.newer
	}
	if e.older == nil {
		s.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		s.newest = e.older
	} else {
		e.newer.older = e.older
	}
	name := objectKeyOf(&e.run)
	d := s.objects[name]
	d.entries = slices.DeleteFunc(d.entries, func(other *entry) bool { return other == e })
	if len(d.entries) == 0 {
		delete(s.objects, name)
	}
	s.bytes -= e.size
	s.runs--
}

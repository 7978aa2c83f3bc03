package model

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// controllerHistory is the history of one controller, by age and by object.
type controllerHistory struct {
	oldest, newest *entry
	// full is the oldest run that still has its bodies; nil if there is none.
	full        *entry
	bytes, runs int
	objects     map[objectKey]*objectHistory
	series      series
	calls       map[callKey]*callCounter
	// remote reports that the webhook client counts the calls.
	remote bool
}

func newControllerHistory() *controllerHistory {
	return &controllerHistory{objects: map[objectKey]*objectHistory{}, calls: map[callKey]*callCounter{}}
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

// matches reports whether a Ref, which may lack the kind or the plural, is that object.
func (n objectKey) matches(ref object.Ref) bool {
	named := ref.Kind.Kind == n.kind.Kind || ref.Kind.Kind == "" && ref.Plural == n.plural
	return named && ref.Group == n.kind.Group && ref.Namespace == n.namespace && ref.Name == n.name
}

// objectHistory is the history of one object, oldest first.
type objectHistory struct {
	entries []*entry
	// noops is the number of runs without changes since the latest entry.
	noops int
}

// previous returns, for each step of an entry, the ID of the previous run with a comparable
// call; 0 if there is none.
func (d *objectHistory) previous(of *entry) []uint64 {
	ids := make([]uint64, len(of.run.Steps))
	for i := range ids {
		if call := of.run.Steps[i].Call; call != nil {
			ids[i] = d.lastComparable(call, of.id)
		}
	}
	return ids
}

// lastComparable returns the ID of the last run before the given one with a comparable
// call; 0 if there is none.
func (d *objectHistory) lastComparable(call *record.Call, before uint64) uint64 {
	for _, e := range slices.Backward(d.entries) {
		if e.id < before && e.comparableTo(call) {
			return e.id
		}
	}
	return 0
}

// clearNext removes the scheduled next run from earlier entries. Writes of daemons and
// reviews do not count as runs.
func (d *objectHistory) clearNext(run *record.Run) {
	if run.Trigger != "" {
		return
	}
	for _, e := range d.entries {
		e.run.NextRun = time.Time{}
	}
}

// addNoop counts a run without changes, if the object has a history.
func (s *controllerHistory) addNoop(run *record.Run) {
	if d := s.objects[objectKeyOf(run)]; d != nil {
		d.noops++
		d.clearNext(run)
	}
}

// add adds the newest run.
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

// trim enforces the bounds. A run larger than half of them is stripped.
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

// shrink strips the oldest run with bodies, or else removes the oldest run. It reports
// whether there was one.
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

// strip drops the bodies of a run.
func (s *controllerHistory) strip(e *entry) {
	if !e.stripped {
		s.bytes -= e.size
		e.strip()
		s.bytes += e.size
	}
}

// remove removes the oldest run of an object.
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

package inspect

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// shelf is what is kept of one controller: its runs by age, and by object.
type shelf struct {
	oldest, newest *entry
	// full is the oldest run that has all it had in its hands; nil if none has.
	full        *entry
	bytes, runs int
	drawers     map[drawerName]*drawer
	series      series
	calls       map[callName]*tally
	// remote says that the calls of hooks are counted where they are made.
	remote bool
}

func newShelf() *shelf {
	return &shelf{drawers: map[drawerName]*drawer{}, calls: map[callName]*tally{}}
}

// drawerName is an object, whatever its version.
type drawerName struct {
	kind            object.GroupKind
	plural          string
	namespace, name string
}

// drawerOf is where a run is kept. The strings are not views of anything larger.
func drawerOf(run *trace.Run) drawerName {
	return drawerName{run.Resource.GroupKind(), run.Resource.Plural, run.Key.Namespace, run.Key.Name}
}

// is says whether a Ref means that object. It may know the kind, or the plural.
func (n drawerName) is(ref Ref) bool {
	named := ref.Kind.Kind == n.kind.Kind || ref.Kind.Kind == "" && ref.Plural == n.plural
	return named && ref.Group == n.kind.Group && ref.Namespace == n.namespace && ref.Name == n.name
}

// drawer is what is kept of one object, the oldest first.
type drawer struct {
	entries []*entry
	// quiet is how many runs found nothing to do since the latest that did.
	quiet int
}

// previous is, for each step of an entry, in which of the runs before it the same was
// asked last; 0 for none.
func (d *drawer) previous(of *entry) []uint64 {
	ids := make([]uint64, len(of.run.Steps))
	for i := range ids {
		if ask := of.run.Steps[i].Ask; ask != nil {
			ids[i] = d.asked(ask, of.id)
		}
	}
	return ids
}

// asked is the last run before one in which the same was asked; 0 for none.
func (d *drawer) asked(ask *trace.Ask, before uint64) uint64 {
	for _, e := range slices.Backward(d.entries) {
		if e.id < before && e.asked(ask) {
			return e.id
		}
	}
	return 0
}

// came notes that the object was run again, as the runs before said it would be. What is
// done beside the runs of an object, a daemon's write or a review, is none of them.
func (d *drawer) came(run *trace.Run) {
	if run.By != "" {
		return
	}
	for _, e := range d.entries {
		e.run.Next = time.Time{}
	}
}

// quiet counts a run that found nothing to do. Of an object of which nothing is kept,
// that is not worth keeping either.
func (s *shelf) quiet(run *trace.Run) {
	if d := s.drawers[drawerOf(run)]; d != nil {
		d.quiet++
		d.came(run)
	}
}

// put adds a run, which is the newest.
func (s *shelf) put(e *entry) {
	name := drawerOf(&e.run)
	d := s.drawers[name]
	if d == nil {
		d = &drawer{}
		s.drawers[name] = d
	}
	if len(d.entries) >= drawerRuns {
		s.remove(d.entries[0])
		s.drawers[name] = d
	}
	d.came(&e.run)
	e.quiet, d.quiet = d.quiet, 0
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
func (s *shelf) trim(bytes int) {
	if e := s.newest; e.size > bytes/2 {
		if s.full == e {
			s.full = nil
		}
		s.strip(e)
	}
	for s.runs > shelfRuns {
		s.remove(s.oldest)
	}
	for s.bytes > bytes && s.shrink() {
	}
}

// shrink makes a little room: what old runs had in their hands goes first, then the
// runs themselves. It says whether there was anything to give.
func (s *shelf) shrink() bool {
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
func (s *shelf) strip(e *entry) {
	if !e.stripped {
		s.bytes -= e.size
		e.strip()
		s.bytes += e.size
	}
}

// remove drops a run, which is the oldest of its object.
func (s *shelf) remove(e *entry) {
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
	name := drawerOf(&e.run)
	d := s.drawers[name]
	d.entries = slices.DeleteFunc(d.entries, func(other *entry) bool { return other == e })
	if len(d.entries) == 0 {
		delete(s.drawers, name)
	}
	s.bytes -= e.size
	s.runs--
}

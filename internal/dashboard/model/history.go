package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/record"
)

// The bounds of a Book that says nothing else.
const (
	defaultBytes = 32 << 20
	// maxControllerBytes and maxControllerRuns are how much of one controller is kept, maxObjectRuns
	// how many runs of one object: one that runs all the time does not push out the
	// others.
	maxControllerBytes = 4 << 20
	maxControllerRuns  = 1000
	maxObjectRuns      = 32
)

// HistoryOptions bound a Book. The zero value works.
type HistoryOptions struct {
	// Off has nothing noted.
	Off bool
	// MaxBytes is how much may be kept in all: 32 MiB if zero.
	MaxBytes int
}

// History is what is kept of runs, the latest of each controller and of each object. What
// runs had in their hands is kept as it is, and counted as if nothing else had it; of
// Secrets it keeps no values. It may be used by many goroutines.
type History struct {
	options HistoryOptions

	mu          sync.Mutex
	controllers map[string]*controllerHistory
	all         series
	// bytes and runs are sums over the shelves.
	bytes, runs int
	last        uint64
	revision    uint64
	// changed is closed with the next change; nil while nobody waits for one.
	changed chan struct{}
}

// NewHistory makes a Book. The numbers of its runs go on from the moment it is made, so
// that those of a former process mean nothing here.
func NewHistory(o HistoryOptions, now time.Time) *History {
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultBytes)
	return &History{options: o, controllers: map[string]*controllerHistory{}, last: uint64(max(now.Unix(), 0)) << 20, revision: 1}
}

// Add keeps the account of a run, or the record of a deletion, which is the Book's own from
// then on. Of a run that found nothing to do, it keeps that there was one.
func (b *History) Add(run record.Run) {
	if b.options.Off {
		return
	}
	if run.IsNoop() {
		b.addNoop(&run)
		return
	}
	// It is a view of the object, of which all would be kept with it.
	run.UID = strings.Clone(run.UID)
	frame := baseSizeOf(&run)
	e := &entry{run: run, size: frame + bodySizeOf(&run), baseSize: frame}
	words := renderSecretRun(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.controller(run.Controller)
	if run.Outcome != record.Deleted {
		s.addLocalCalls(&run)
		counts := countOf(&run)
		s.series.add(counts)
		b.all.add(counts)
	}
	b.last++
	if e.id = b.last; words != nil {
		e.setRendered(words)
	}
	bytes, runs := s.bytes, s.runs
	s.add(e)
	s.trim(min(maxControllerBytes, b.options.MaxBytes))
	b.bytes, b.runs = b.bytes+s.bytes-bytes, b.runs+s.runs-runs
	b.trim()
	b.notify()
}

// addNoop counts a run that found nothing to do.
func (b *History) addNoop(run *record.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.controller(run.Controller).addNoop(run)
}

// controller is that of a controller.
func (b *History) controller(controller string) *controllerHistory {
	s := b.controllers[controller]
	if s == nil {
		s = newControllerHistory()
		b.controllers[controller] = s
	}
	return s
}

// trim keeps to the bound of all: whoever has the most gives.
func (b *History) trim() {
	for b.bytes > b.options.MaxBytes {
		var largest *controllerHistory
		for _, s := range b.controllers {
			if largest == nil || s.bytes > largest.bytes {
				largest = s
			}
		}
		bytes, runs := largest.bytes, largest.runs
		if !largest.shrink() {
			return
		}
		b.bytes, b.runs = b.bytes+largest.bytes-bytes, b.runs+largest.runs-runs
	}
}

// Drop drops all that is kept of a controller that is gone.
func (b *History) Drop(controller string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.controllers[controller]; s != nil {
		b.bytes, b.runs = b.bytes-s.bytes, b.runs-s.runs
		delete(b.controllers, controller)
	}
	b.notify()
}

// Runs are those of an object, the latest first; all that are kept if there is no
// limit. What was asked and answered is left out.
func (b *History) Runs(ref Ref, limit int) []Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []*entry
	for _, s := range b.controllers {
		for name, d := range s.objects {
			if name.matches(ref) {
				found = append(found, d.entries...)
			}
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Compare(b.id, a.id) })
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	runs := make([]Run, 0, len(found))
	for _, e := range found {
		runs = append(runs, e.summary())
	}
	return runs
}

// Run is one run with all that was asked and answered.
func (b *History) Run(id uint64) (Run, error) {
	e, previous := b.find(id)
	if e == nil {
		return Run{}, fmt.Errorf("run %d is not kept (any more): %w", id, ErrNotFound)
	}
	run := renderRun(e, true)
	for i := range run.Steps {
		if ask := run.Steps[i].Call; ask != nil {
			ask.Previous = previous[i]
		}
	}
	return run, nil
}

// find is a copy of an entry, and for each step in which run before it the same was asked;
// 0 for none.
func (b *History) find(id uint64) (*entry, []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.controllers {
		for e := s.newest; e != nil && e.id >= id; e = e.older {
			if e.id == id {
				return e.clone(), s.objects[objectKeyOf(&e.run)].previous(e)
			}
		}
	}
	return nil, nil
}

// Stats say what is kept.
func (b *History) Stats() HistoryStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return HistoryStats{Runs: b.runs, Bytes: b.bytes, MaxBytes: b.options.MaxBytes, Off: b.options.Off}
}

// AddCall counts a call that ended in some way.
func (b *History) AddCall(controller, what, outcome string, took time.Duration) {
	if b.options.Off {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.controller(controller).addCall(what, outcome, took)
}

// AddHookCall counts a call of a hook that is somewhere else. The code says how it ended
// better than the error that a run gets to see.
func (b *History) AddHookCall(controller, what, code string, took time.Duration) {
	if b.options.Off {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.controller(controller)
	s.remote = true
	s.addCall(what, code, took)
}

// Calls are how those of a controller ended.
func (b *History) Calls(controller string) []CallStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.controllers[controller]; s != nil {
		return s.callStats()
	}
	return nil
}

// Series is what a controller did lately; that of all of them together for "". There are
// no points where nothing is noted.
func (b *History) Series(controller string, now time.Time) Series {
	if b.options.Off {
		return Series{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if controller == "" {
		return b.all.until(now)
	}
	if s := b.controllers[controller]; s != nil {
		return s.series.until(now)
	}
	return (&series{}).until(now)
}

// NotifyChange says that something else is to be read now.
func (b *History) NotifyChange() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notify()
}

// notify costs nothing to speak of while nobody waits.
func (b *History) notify() {
	b.revision++
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Revision is the present one, and what is closed when it is not any more.
func (b *History) Revision() (revision uint64, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.revision, b.changed
}

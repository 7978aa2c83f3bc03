package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/trace"
)

// The bounds of a Book that says nothing else.
const (
	defaultBytes = 32 << 20
	// shelfBytes and shelfRuns are how much of one controller is kept, drawerRuns
	// how many runs of one object: one that runs all the time does not push out the
	// others.
	shelfBytes = 4 << 20
	shelfRuns  = 1000
	drawerRuns = 32
)

// BookOptions bound a Book. The zero value works.
type BookOptions struct {
	// Off has nothing noted.
	Off bool
	// MaxBytes is how much may be kept in all: 32 MiB if zero.
	MaxBytes int
}

// Book is what is kept of runs, the latest of each controller and of each object. What
// runs had in their hands is kept as it is, and counted as if nothing else had it; of
// Secrets it keeps no values. It may be used by many goroutines.
type Book struct {
	options BookOptions

	mu      sync.Mutex
	shelves map[string]*shelf
	all     series
	// bytes and runs are sums over the shelves.
	bytes, runs int
	last        uint64
	revision    uint64
	// changed is closed with the next change; nil while nobody waits for one.
	changed chan struct{}
}

// NewBook makes a Book. The numbers of its runs go on from the moment it is made, so
// that those of a former process mean nothing here.
func NewBook(o BookOptions, now time.Time) *Book {
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultBytes)
	return &Book{options: o, shelves: map[string]*shelf{}, last: uint64(max(now.Unix(), 0)) << 20, revision: 1}
}

// Note keeps the account of a run, or the record of a deletion, which is the Book's own from
// then on. Of a run that found nothing to do, it keeps that there was one.
func (b *Book) Note(run trace.Run) {
	if b.options.Off {
		return
	}
	if run.Quiet() {
		b.quiet(&run)
		return
	}
	// It is a view of the object, of which all would be kept with it.
	run.UID = strings.Clone(run.UID)
	frame := frameOf(&run)
	e := &entry{run: run, size: frame + loadOf(&run), frame: frame}
	words := wordsOfSecrets(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shelf(run.Program)
	if run.Outcome != trace.Deleted {
		s.asked(&run)
		counts := countOf(&run)
		s.series.add(counts)
		b.all.add(counts)
	}
	b.last++
	if e.id = b.last; words != nil {
		e.keep(words)
	}
	bytes, runs := s.bytes, s.runs
	s.put(e)
	s.trim(min(shelfBytes, b.options.MaxBytes))
	b.bytes, b.runs = b.bytes+s.bytes-bytes, b.runs+s.runs-runs
	b.trim()
	b.bump()
}

// quiet counts a run that found nothing to do.
func (b *Book) quiet(run *trace.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shelf(run.Program).quiet(run)
}

// shelf is that of a controller.
func (b *Book) shelf(controller string) *shelf {
	s := b.shelves[controller]
	if s == nil {
		s = newShelf()
		b.shelves[controller] = s
	}
	return s
}

// trim keeps to the bound of all: whoever has the most gives.
func (b *Book) trim() {
	for b.bytes > b.options.MaxBytes {
		var largest *shelf
		for _, s := range b.shelves {
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

// Forget drops all that is kept of a controller that is gone.
func (b *Book) Forget(controller string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.shelves[controller]; s != nil {
		b.bytes, b.runs = b.bytes-s.bytes, b.runs-s.runs
		delete(b.shelves, controller)
	}
	b.bump()
}

// Runs are those of an object, the latest first; all that are kept if there is no
// limit. What was asked and answered is left out.
func (b *Book) Runs(ref Ref, limit int) []Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []*entry
	for _, s := range b.shelves {
		for name, d := range s.drawers {
			if name.is(ref) {
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
		runs = append(runs, e.brief())
	}
	return runs
}

// Run is one run with all that was asked and answered.
func (b *Book) Run(id uint64) (Run, error) {
	e, previous := b.find(id)
	if e == nil {
		return Run{}, fmt.Errorf("run %d is not kept (any more): %w", id, ErrNotFound)
	}
	run := wordsOf(e, true)
	for i := range run.Steps {
		if ask := run.Steps[i].Ask; ask != nil {
			ask.Previous = previous[i]
		}
	}
	return run, nil
}

// find is a copy of an entry, and for each step in which run before it the same was asked;
// 0 for none.
func (b *Book) find(id uint64) (*entry, []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.shelves {
		for e := s.newest; e != nil && e.id >= id; e = e.older {
			if e.id == id {
				return e.copied(), s.drawers[drawerOf(&e.run)].previous(e)
			}
		}
	}
	return nil, nil
}

// Stats say what is kept.
func (b *Book) Stats() BookStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BookStats{Runs: b.runs, Bytes: b.bytes, MaxBytes: b.options.MaxBytes, Off: b.options.Off}
}

// Called counts a call that ended in some way.
func (b *Book) Called(controller, what, outcome string, took time.Duration) {
	if b.options.Off {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shelf(controller).called(what, outcome, took)
}

// Exchanged counts a call of a hook that is somewhere else. The code says how it ended
// better than the error that a run gets to see.
func (b *Book) Exchanged(controller, what, code string, took time.Duration) {
	if b.options.Off {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shelf(controller)
	s.remote = true
	s.called(what, code, took)
}

// Calls are how those of a controller ended.
func (b *Book) Calls(controller string) []Calls {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.shelves[controller]; s != nil {
		return s.callsInWords()
	}
	return nil
}

// Series is what a controller did lately; that of all of them together for "". There are
// no points where nothing is noted.
func (b *Book) Series(controller string, now time.Time) Series {
	if b.options.Off {
		return Series{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if controller == "" {
		return b.all.until(now)
	}
	if s := b.shelves[controller]; s != nil {
		return s.series.until(now)
	}
	return (&series{}).until(now)
}

// Changed says that something else is to be read now.
func (b *Book) Changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bump()
}

// bump costs nothing to speak of while nobody waits.
func (b *Book) bump() {
	b.revision++
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Revision is the present one, and what is closed when it is not any more.
func (b *Book) Revision() (revision uint64, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.revision, b.changed
}

package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// defaultBytes bounds the memory of a History.
const defaultBytes = 32 << 20

// HistoryOptions bound a History. The zero value works.
type HistoryOptions struct {
	// Off disables the history.
	Off bool
	// MaxBytes bounds the memory; 32 MiB if zero.
	MaxBytes int
}

// History keeps the latest runs of each controller and object. Objects in runs are kept as they are and their full size
// is counted; values of Secrets are not kept. It is safe for concurrent use.
type History struct {
	options HistoryOptions
	// key makes the tokens that stand for values of Secrets.
	key *redact.Key

	mu          sync.Mutex
	controllers map[string]*controllerHistory
	all         series
	last        uint64
	revision    uint64
	// changed is closed at the next change; nil if nothing waits.
	changed chan struct{}
}

// NewHistory returns a History. Run IDs start at the current time, so that IDs of an earlier process are not found.
func NewHistory(o HistoryOptions, now time.Time) *History {
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultBytes)
	return &History{options: o, key: redact.NewKey(), controllers: map[string]*controllerHistory{}, last: uint64(max(now.Unix(), 0)) << 20,
		revision: 1}
}

// Add records a run or a deletion; the history owns it from then on. Runs without changes are only counted.
func (b *History) Add(run Run) {
	if b.options.Off {
		return
	}
	if run.IsNoop() {
		b.addNoop(&run)
		return
	}
	e := newEntry(&run, b.key)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.historyOf(run.Controller)
	if run.Outcome != record.Deleted {
		s.addLocalCalls(&run)
		s.series.add(&run)
		b.all.add(&run)
	}
	b.last++
	e.run.ID = b.last
	s.add(e, &run)
	s.trim(min(maxControllerBytes, b.options.MaxBytes))
	b.trim()
	b.notify()
}

func (b *History) addNoop(run *Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// An object without a history does not get one.
	if d := b.historyOf(run.Controller).objects[objectKeyOf(run)]; d != nil {
		d.noops++
		d.clearNext(run)
	}
}

func (b *History) historyOf(controller string) *controllerHistory {
	s := b.controllers[controller]
	if s == nil {
		s = &controllerHistory{objects: map[objectKey]*objectHistory{}, calls: callCounters{}}
		b.controllers[controller] = s
	}
	return s
}

// trim enforces the bound of memory; the largest controller gives way.
func (b *History) trim() {
	for b.used() > b.options.MaxBytes {
		largest := slices.MaxFunc(slices.Collect(maps.Values(b.controllers)),
			func(s, t *controllerHistory) int { return cmp.Compare(s.bytes, t.bytes) })
		if !largest.shrink() {
			return
		}
	}
}

func (b *History) used() (sum int) {
	for _, s := range b.controllers {
		sum += s.bytes
	}
	return sum
}

// Drop removes the history of a deleted controller.
func (b *History) Drop(controller string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.controllers, controller)
	b.notify()
}

// Runs returns the runs of an object, newest first, without requests and responses; all if limit is 0.
func (b *History) Runs(ref object.Ref, limit int) []Run {
	found := b.entriesOf(ref)
	slices.SortFunc(found, func(a, b entry) int { return cmp.Compare(b.run.ID, a.run.ID) })
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	runs := make([]Run, 0, len(found))
	for i := range found {
		runs = append(runs, found[i].view())
	}
	return runs
}

// entriesOf returns copies of the entries of an object.
func (b *History) entriesOf(ref object.Ref) []entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []entry
	for _, s := range b.controllers {
		for name, d := range s.objects {
			if !name.matches(ref) {
				continue
			}
			found = append(found, lists.Map(d.entries, func(e *entry) entry { return *e })...)
		}
	}
	return found
}

// Run returns a run with requests and responses, in which values of Secrets are masked.
func (b *History) Run(id uint64) (Run, error) {
	run, err := b.RunWithTokens(id)
	for i := range run.Steps {
		if call := run.Steps[i].Call; call != nil && call.Code != nil {
			call.Code = new(call.Code.WithSource())
		}
	}
	return hideTokens(run), err
}

// RunWithTokens returns a run with requests and responses, in which tokens stand for values of Secrets.
func (b *History) RunWithTokens(id uint64) (Run, error) {
	found, previous := b.find(id)
	if found.run.ID == 0 {
		return Run{}, fmt.Errorf("run %d is not kept (any more): %w", id, failure.ErrNotFound)
	}
	run := found.run.Render(true)
	for i, id := range previous {
		if call := run.Steps[i].Call; call != nil {
			call.Previous = id
		}
	}
	return run, nil
}

// find returns a copy of an entry, and of each of its steps that is a call the ID of the previous run with a comparable
// one; none if it is not kept.
func (b *History) find(id uint64) (found entry, previous []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.controllers {
		at, is := slices.BinarySearchFunc(s.entries, id, func(e *entry, id uint64) int { return cmp.Compare(e.run.ID, id) })
		if !is {
			continue
		}
		found = *s.entries[at]
		if found.key.name == "" {
			break
		}
		for _, step := range found.run.Steps {
			previous = append(previous, s.objects[found.key].lastComparable(step.Call, id))
		}
		break
	}
	return found, previous
}

// Reviews returns the recorded reviews by a controller, newest first, without requests and
// responses. detailed adds the groups of the users and the changed fields.
func (b *History) Reviews(controller string, detailed bool) []Run {
	entries := b.reviewEntries(controller)
	runs := make([]Run, 0, len(entries))
	for i := range entries {
		run := entries[i].run.Render(detailed)
		run.Steps[0].Call.Request, run.Steps[0].Call.Response = nil, nil
		runs = append(runs, entries[i].withoutTokens(run))
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return b.Began.Compare(a.Began) })
	return runs
}

// reviewEntries returns copies of the entries of reviews, newest first.
func (b *History) reviewEntries(controller string) []entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.controllers[controller]
	if s == nil {
		return nil
	}
	var found []entry
	for _, e := range slices.Backward(s.entries) {
		if e.review {
			found = append(found, *e)
		}
	}
	return found
}

// Stats returns the size and bounds.
func (b *History) Stats() HistoryStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := HistoryStats{Bytes: b.used(), MaxBytes: b.options.MaxBytes, Off: b.options.Off}
	for _, s := range b.controllers {
		stats.Runs += len(s.entries)
	}
	return stats
}

// AddCall counts a call of a function by its outcome.
func (b *History) AddCall(controller, what, outcome string, took time.Duration) {
	if b.options.Off {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.historyOf(controller).calls.add(what, outcome, took)
}

// AddHookCall counts a call of a webhook by its status code, which says more than the error in the run.
func (b *History) AddHookCall(controller, what, code string, took time.Duration) {
	if b.options.Off {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.historyOf(controller)
	s.remote = true
	s.calls.add(what, code, took)
}

// Calls returns the calls of a controller by outcome.
func (b *History) Calls(controller string) []CallStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.controllers[controller]; s != nil {
		return s.calls.stats()
	}
	return nil
}

// Series returns the activity of a controller; that of all controllers for "". It has no points if the history is off.
func (b *History) Series(controller string, now time.Time) Series {
	if b.options.Off {
		return Series{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	of := &series{}
	if s := b.controllers[controller]; s != nil {
		of = &s.series
	} else if controller == "" {
		of = &b.all
	}
	return of.until(now)
}

// NotifyChange increments the revision.
func (b *History) NotifyChange() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notify()
}

// notify is cheap while nothing waits.
func (b *History) notify() {
	b.revision++
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Revision returns the current revision and a channel that is closed when it changes.
func (b *History) Revision() (revision uint64, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.revision, b.changed
}

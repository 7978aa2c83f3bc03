package react

import (
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// memory is what is remembered of one object between runs. Losing it costs the
// old objects of notices, and a call of handlers whose answers were not written
// yet. It belongs to the worker that holds the object's key.
type memory struct {
	uid string
	// since is when the object was first looked at.
	since    time.Time
	handlers []recall
	// owed are the answers that are not written yet, in the order they came in.
	owed []*owed
	// writing is how the writes of the object itself fail.
	writing attempt
	// losses is how often the record was removed lately, last since then.
	losses attempt
	// moved is how many runs in a row met an object that had changed meanwhile.
	moved int
	// throttle slows down handlers that are called again and again because of changes.
	throttle throttle
	// versions are those that our latest writes made: they are no news.
	versions []uint64
	// conditions says that answers have carried conditions.
	conditions bool
	paused     bool
	// left is how the owned objects were left.
	left []leaving
	// kept are the revisions of the object.
	kept    kept
	trouble trouble
	// shown is what of all this others may read: see Cares.
	shown trace.Care
}

// recall is what is remembered of one handler of an object.
type recall struct {
	progress
	// events are the changes that a handler of events has not seen.
	events []store.Event
	// first is what the handler could have watched at first sight. It is compared
	// with where an entry cannot be made yet, because the handler cares for changes
	// alone.
	first string
	// stored is what the server made of what was written for the handler:
	// recorded stands in the record, actual is what is there.
	stored struct{ recorded, actual string }
	// complaint is what the handler last failed with, reason its kind and fault what of
	// it failed; empty if it is well.
	complaint, reason string
	fault             *trace.Fault
	// among says where writes were refused, which the complaint may quote.
	among []trace.Place
	// kept is what budgets keep of the pods that are to be evicted.
	kept keptBack
	// idle is since when what is watched has been the same.
	idle struct {
		watched string
		since   time.Time
	}
	// recorded is the entry as this process last knew it on the object.
	recorded entry
	// unkept is a digest of what could not be kept.
	unkept string
	// working is the daemon at work, finished that it has done its work.
	working  *working
	finished bool
}

// progress is how far a handler is: what a call of it changes.
type progress struct {
	// handled is the object as the handler last dealt with it; nil if that is not
	// known.
	handled *object.Object
	// attempt is the notice that has to come again.
	attempt attempt
	// resumed says that there is nothing to resume any more.
	resumed bool
	// ticked is the moment that the next one by the clock is counted from.
	ticked time.Time
	// pending is the entry that is not recorded yet; before is what was watched
	// when it was made, and is there until what the handler wrote is.
	pending *entry
	before  string
	// answered is the object as the pending entry has it, where an answer changes what
	// is watched.
	answered *object.Object
}

// attempt is something that failed and is to be tried again.
type attempt struct {
	reason hook.Reason
	// input is what it was about: something else is another attempt.
	input string
	// count is how often it failed, since the first time.
	count int
	since time.Time
	next  time.Time
	// again says that the handler did not fail, but wants to be called once more: then,
	// or when the object is not what it was after the writes of that run, by a digest of
	// all of it.
	again bool
	whole string
	// rounds is how often in a row the handler asked for that to be at once.
	rounds int
}

// trouble is the present failure of an object, if any.
type trouble struct {
	failing, ofHandler, restless bool
	message                      string
	told                         time.Time
	// fault is what failed in the latest run, if one did.
	fault *trace.Fault
}

// memories are the memories of all objects of a controller, with the sums that
// its health is made of.
type memories struct {
	mu    sync.Mutex
	byKey map[queue.Key]*memory
	// Sums over byKey.
	failing, ofHandler, restless, paused int
	last                                 LastError
	// handler is what handlers fail with, as one message for all objects.
	handler LastError
}

func newMemories() *memories {
	return &memories{byKey: map[queue.Key]*memory{}}
}

// of returns the memory of an object, a fresh one for another object of its name.
func (m *memories) of(key queue.Key, uid string) (found *memory, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known != nil && known.uid == uid {
		return known, false
	}
	m.forget(known)
	made := &memory{uid: strings.Clone(uid)}
	m.byKey[key] = made
	return made, true
}

// drop forgets an object that is gone, or is nobody's business any more.
func (m *memories) drop(key queue.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.byKey[key])
	delete(m.byKey, key)
}

// clear forgets all: what others did meanwhile is not known.
func (m *memories) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byKey)
	m.failing, m.ofHandler, m.restless, m.paused = 0, 0, 0, 0
}

// forget takes a memory out of the sums, and ends its daemons.
func (m *memories) forget(known *memory) {
	if known == nil {
		return
	}
	m.paused -= count(known.paused)
	m.replace(known, trouble{})
	for i := range known.handlers {
		if w := known.handlers[i].working; w != nil {
			w.stop()
		}
	}
}

// replace replaces an object's trouble in its memory and in the sums.
func (m *memories) replace(of *memory, now trouble) {
	m.failing += count(now.failing) - count(of.trouble.failing)
	m.ofHandler += count(now.ofHandler) - count(of.trouble.ofHandler)
	m.restless += count(now.restless) - count(of.trouble.restless)
	of.trouble = now
}

// note records how a run went for its object.
func (m *memories) note(of *memory, now trouble, last LastError, ran time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of.show(now, last, ran)
	if last.Message != "" {
		m.last = last
		if now.ofHandler && (m.ofHandler == 0 || last.Time.Sub(m.handler.Time) > sameComplaint) {
			m.handler = last
		}
	}
	m.replace(of, now)
}

// show has others read how a run went.
func (m *memory) show(now trouble, last LastError, ran time.Time) {
	m.shown.Ran, m.shown.Failing = ran, now.failing
	switch {
	case !now.failing:
		m.shown.Error, m.shown.Fault, m.shown.Attempts, m.shown.Among = "", nil, 0, nil
		m.shown.Since = time.Time{}
	case last.Message != "":
		// A run that only waited says nothing new.
		m.shown.Error, m.shown.Fault, m.shown.Among = last.Message, now.fault, last.Among
		m.shown.Attempts++
		if m.shown.Since.IsZero() {
			m.shown.Since = ran
		}
	}
}

// sameComplaint is how long one message stands for what the handlers fail with.
// Each object may be failed in other words, and a condition must not flap.
const sameComplaint = 30 * time.Second

// pause notes whether an object is left alone.
func (m *memories) pause(of *memory, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused += count(paused) - count(of.paused)
	of.paused = paused
}

// uids are those of all objects that are remembered.
func (m *memories) uids() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]string, 0, len(m.byKey))
	for _, one := range m.byKey {
		all = append(all, one.uid)
	}
	return all
}

// failingKeys are the objects that failed when last run.
func (m *memories) failingKeys() []queue.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []queue.Key
	for key, one := range m.byKey {
		if one.trouble.failing {
			keys = append(keys, key)
		}
	}
	return keys
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

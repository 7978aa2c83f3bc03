package engine

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// memory is what is remembered of one parent between runs: digests, never
// copies of objects. Losing it costs a hook call and some comparing, nothing
// else. It belongs to the worker that holds the parent's key.
type memory struct {
	uid string
	// answered is the digest of the input whose answer was carried out in
	// full; 0 for none.
	answered uint64
	// status is what was last wanted of the status, and what the server made
	// of it: the two differ for ever where a schema prunes a field.
	status struct{ wanted, stored uint64 }
	// authored are the types of conditions that the latest response gave itself, although
	// they are ours elsewhere.
	authored []string
	// finalized says that a response said so, and that it was carried out.
	finalized bool
	// settled children need no comparing until they or what is desired change.
	settled agreements
	// children is how many children the parent had when last looked at.
	children int
	trouble  trouble
	// moved is how many runs in a row met an object that had changed meanwhile.
	moved int
	// customized is the digest of the parent for which the customize hook gave
	// the rules that hold now; 0 for none.
	customized uint64
	// told are digests of the events in the latest reply.
	told []uint64
	// flapping are the children that are written again and again.
	flapping plan.Flapping
	// churn finds hooks whose responses differ for the same request; wrote says that
	// something was written since the latest call.
	churn plan.Churn
	wrote bool
	// paused says that the user knows that the parent is left alone.
	paused bool
	// spec is the spec that was last acted upon, 0 if that is not known; edited is when
	// it was seen to have changed, and editPending says that no run has succeeded
	// since.
	spec        uint64
	edited      time.Time
	editPending bool
	// ran is when the parent was last run, failed how many runs in a row did.
	ran    time.Time
	failed int
}

// trouble is the present failure of a parent, if any.
type trouble struct {
	failing bool
	ofHook  bool
	// unanswered says that the hook gave no answer at all, to this parent or any other.
	unanswered bool
	message    string
	fault      *trace.Fault
	told       time.Time
	// since is when the first run in a row failed.
	since time.Time
	// among says where writes were refused, which the message may quote.
	among []trace.Place
}

// unrest is what of a parent does not settle, and among which objects.
type unrest struct {
	words string
	among []trace.Place
}

// memories are the memories of all parents of a controller, with the sums that
// its health is made of.
type memories struct {
	mu       sync.Mutex
	byKey    map[queue.Key]*memory
	children int
	paused   int
	// unrest is what does not settle, by parent.
	unrest  map[queue.Key]unrest
	failing int
	ofHook  int
	last    LastError
	// hook is what the hook fails with, as one message for all parents.
	hook LastError
}

func newMemories() *memories {
	return &memories{byKey: map[queue.Key]*memory{}, unrest: map[queue.Key]unrest{}}
}

// of returns the memory of a parent, a fresh one for another object of its name.
func (m *memories) of(key queue.Key, uid string) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known != nil && known.uid == uid {
		return known
	}
	m.forget(known)
	fresh := &memory{uid: strings.Clone(uid)}
	m.byKey[key] = fresh
	return fresh
}

// unanswered are the parents whose last call got no answer.
func (m *memories) unanswered() []queue.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []queue.Key
	for key, known := range m.byKey {
		if known.trouble.unanswered {
			keys = append(keys, key)
		}
	}
	return keys
}

// drop forgets a parent that is gone.
func (m *memories) drop(key queue.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.byKey[key])
	delete(m.byKey, key)
	delete(m.unrest, key)
}

// forget takes a memory out of the sums.
func (m *memories) forget(known *memory) {
	if known == nil {
		return
	}
	m.children -= known.children
	m.paused -= count(known.paused)
	m.trouble(known, trouble{})
}

// trouble replaces a parent's trouble in its memory and in the sums.
func (m *memories) trouble(of *memory, now trouble) {
	m.failing += count(now.failing) - count(of.trouble.failing)
	m.ofHook += count(now.ofHook) - count(of.trouble.ofHook)
	if of.trouble.failing {
		now.since = of.trouble.since
	}
	of.trouble = now
	of.failed++
	if !now.failing {
		of.failed = 0
	}
}

// pause notes whether a parent is left alone.
func (m *memories) pause(of *memory, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused += count(paused) - count(of.paused)
	of.paused = paused
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rest notes what of a parent does not settle, without words nothing, at the end of a
// run.
func (m *memories) rest(key queue.Key, of *memory, unrest unrest, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of.ran = now
	if unrest.words == "" {
		delete(m.unrest, key)
		return
	}
	m.unrest[key] = unrest
}

// firstUnrest is the unrest of the parent that comes first by name, so that it
// stays the same one as long as it lasts.
func (m *memories) firstUnrest() string {
	keys := slices.SortedFunc(maps.Keys(m.unrest), func(a, b queue.Key) int { return strings.Compare(a.String(), b.String()) })
	if len(keys) == 0 {
		return ""
	}
	return m.unrest[keys[0]].words
}

// note records how a run went for its parent.
func (m *memories) note(of *memory, children int, now trouble, last *LastError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.children += children - of.children
	of.children = children
	if last != nil {
		m.last = *last
		m.complain(now, *last)
	}
	m.trouble(of, now)
}

// sameComplaint is how long one message stands for what a hook fails with. Each
// parent may be failed in other words, and a condition must not flap.
const sameComplaint = 30 * time.Second

// complain takes a failure of the hook for the message of all, if it is the
// first one or the former is old.
func (m *memories) complain(now trouble, last LastError) {
	if now.ofHook && (m.ofHook == 0 || last.Time.Sub(m.hook.Time) > sameComplaint) {
		m.hook = last
	}
}

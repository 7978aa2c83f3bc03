// Package probe is how the load generator looks into a contender's process: a
// few loopback URLs that say whether it is ready, how many calls it has had,
// when the calls that concern one given value came in, and what a call looks like.
//
// Serve and Recorder are for the processes that are looked into (the hook, the
// hand-written controller), Client for the load generator. Recording costs a few
// atomic writes per call, the same in every contender.
package probe

import (
	"sync"
	"sync/atomic"
	"time"
)

// Recorder counts calls. The zero value is ready to use.
type Recorder struct {
	calls, customized atomic.Int64
	first, last       atomic.Int64
	ready             atomic.Bool
	armed             atomic.Pointer[firstCall]
	body              atomic.Pointer[[]byte]
}

// firstCall waits until calls for so many parents have had a value.
type firstCall struct {
	value   string
	parents int
	done    chan struct{}

	mu   sync.Mutex
	seen map[string]bool
	// at is when the last of them came in; set before fell is closed.
	at time.Time
}

// record takes note of a call with the value.
func (t *firstCall) record(parent string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[parent] || len(t.seen) == t.parents {
		return
	}
	t.seen[parent] = true
	if len(t.seen) == t.parents {
		t.at = at
		close(t.done)
	}
}

// Entered records one call for a parent whose value is given, and when it came
// in.
func (r *Recorder) Entered(parent, value string, at time.Time) {
	if r.calls.Add(1) == 1 {
		r.first.Store(at.UnixNano())
	}
	r.last.Store(at.UnixNano())
	r.Shown(parent, value, at)
}

// Shown records that a call showed a value, of the parent or of what it reads.
func (r *Recorder) Shown(parent, value string, at time.Time) {
	if armed := r.armed.Load(); armed != nil && armed.value == value {
		armed.record(parent, at)
	}
}

// Customized records one question for related objects.
func (r *Recorder) Customized() { r.customized.Add(1) }

// SetBody keeps the body of a call until the next one's: an example of them all.
func (r *Recorder) SetBody(body []byte) { r.body.Store(&body) }

// SetReady says that the process is ready for work.
func (r *Recorder) SetReady() { r.ready.Store(true) }

// arm replaces the trap by one for value.
func (r *Recorder) arm(value string, parents int) {
	r.armed.Store(&firstCall{value: value, parents: parents, seen: map[string]bool{}, done: make(chan struct{})})
}

// Package probe is how the load generator looks into a contender's process: a
// few loopback URLs that say whether it is ready, how many calls it has had,
// and when the call for one given value came in.
//
// Serve and Recorder are for the processes that are looked into (the hook, the
// hand-written controller), Client for the load generator. Recording costs two
// atomic writes per call, the same in every contender.
package probe

import (
	"sync"
	"sync/atomic"
	"time"
)

// Recorder counts calls. The zero value is ready to use.
type Recorder struct {
	calls, last atomic.Int64
	ready       atomic.Bool
	armed       atomic.Pointer[trap]
}

// trap waits for the first call with a value.
type trap struct {
	value string
	once  sync.Once
	at    time.Time
	fell  chan struct{}
}

// Entered records one call for a parent whose value is given, and when it came
// in.
func (r *Recorder) Entered(value string, at time.Time) {
	r.calls.Add(1)
	r.last.Store(at.UnixNano())
	if armed := r.armed.Load(); armed != nil && armed.value == value {
		armed.once.Do(func() {
			armed.at = at
			close(armed.fell)
		})
	}
}

// SetReady says that the process is ready for work.
func (r *Recorder) SetReady() { r.ready.Store(true) }

// arm replaces the trap by one for value.
func (r *Recorder) arm(value string) {
	r.armed.Store(&trap{value: value, fell: make(chan struct{})})
}

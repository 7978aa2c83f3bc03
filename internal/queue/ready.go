package queue

import (
	"container/list"
	"time"
)

// lowPriorityEvery is how often a pick ignores the order of priorities. If all bands are full,
// edits get 7 of 8 picks and each lower band 1 of 24.
const lowPriorityEvery = 8

// ready holds the queued keys.
type ready struct {
	bands [priorities]band
	len   int
	picks uint64
	turn  Priority // the band of the latest such pick
}

// band holds the keys of one priority, with a lane for each namespace.
type band struct {
	lanes map[string]*lane
	order list.List // lanes in the order of their turns
	len   int
}

type lane struct {
	namespace string
	keys      list.List     // entries
	element   *list.Element // in band.order
}

// push enqueues the entry with the priority of its causes, or promotes it.
func (r *ready) push(e *entry) {
	priority := e.causes.Priority()
	if e.lane != nil {
		if e.priority <= priority {
			return
		}
		r.remove(e)
	}
	b := &r.bands[priority]
	e.priority, e.lane = priority, b.laneOf(e.key.Namespace)
	e.element = e.lane.keys.PushBack(e)
	b.len++
	r.len++
}

// pop removes and returns the next entry; ready must not be empty.
func (r *ready) pop() *entry {
	b := &r.bands[r.pick()]
	l := b.order.Front().Value.(*lane)
	b.order.MoveToBack(l.element)
	e := l.keys.Front().Value.(*entry)
	r.remove(e)
	return e
}

// pick returns the next band.
func (r *ready) pick() Priority {
	r.picks++
	if r.picks%lowPriorityEvery == 0 {
		for range priorities - 1 {
			r.turn = r.turn%Background + 1
			if r.bands[r.turn].len > 0 {
				return r.turn
			}
		}
	}
	for p := range priorities {
		if r.bands[p].len > 0 {
			return p
		}
	}
	return Background
}

func (r *ready) remove(e *entry) {
	b, l := &r.bands[e.priority], e.lane
	l.keys.Remove(e.element)
	e.lane = nil
	b.len--
	r.len--
	if l.keys.Len() == 0 {
		b.order.Remove(l.element)
		delete(b.lanes, l.namespace)
	}
}

func (b *band) laneOf(namespace string) *lane {
	if l := b.lanes[namespace]; l != nil {
		return l
	}
	if b.lanes == nil {
		b.lanes = map[string]*lane{}
	}
	l := &lane{namespace: namespace}
	l.element = b.order.PushBack(l)
	b.lanes[namespace] = l
	return l
}

// oldest returns the start of the longest wait. It visits all entries, because promotions change
// their order.
func (r *ready) oldest(now time.Duration) time.Duration {
	for i := range r.bands {
		for _, l := range r.bands[i].lanes {
			for at := l.keys.Front(); at != nil; at = at.Next() {
				now = min(now, at.Value.(*entry).waitingSince)
			}
		}
	}
	return now
}

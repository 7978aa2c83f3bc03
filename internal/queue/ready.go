package queue

import "time"

// lowPriorityEvery is how often a pick ignores the order of priorities. If all bands are full,
// edits get 7 of 8 picks and each lower band 1 of 24.
const lowPriorityEvery = 8

// ready holds the queued keys.
type ready struct {
	bands [priorities]band
	len   int
	picks uint64
	turn  Priority // the band of the latest such pick
	lanes freeList[lane]
}

// band holds the keys of one priority, with a lane for each namespace.
type band struct {
	lanes map[string]*lane
	order list[lane] // lanes in the order of their turns
	len   int
}

type lane struct {
	namespace string
	keys      list[entry]
	link      link[lane]
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
	e.priority, e.lane = priority, r.laneOf(b, e.key.Namespace)
	e.lane.keys.push(&e.link)
	b.len++
	r.len++
}

// pop removes and returns the next entry; ready must not be empty.
func (r *ready) pop() *entry {
	b := &r.bands[r.pick()]
	l := b.order.first.element
	b.order.remove(&l.link)
	b.order.push(&l.link)
	e := l.keys.first.element
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
	l.keys.remove(&e.link)
	e.lane = nil
	b.len--
	r.len--
	if l.keys.empty() {
		b.order.remove(&l.link)
		delete(b.lanes, l.namespace)
		r.lanes.put(l)
	}
}

func (r *ready) laneOf(b *band, namespace string) *lane {
	if l := b.lanes[namespace]; l != nil {
		return l
	}
	if b.lanes == nil {
		b.lanes = map[string]*lane{}
	}
	l := r.lanes.take()
	l.namespace, l.link.element = namespace, l
	b.lanes[namespace] = l
	b.order.push(&l.link)
	return l
}

// oldest returns the start of the longest wait. It visits all entries, because promotions change
// their order.
func (r *ready) oldest(now time.Duration) time.Duration {
	for i := range r.bands {
		for l := range r.bands[i].order.all {
			for e := range l.keys.all {
				now = min(now, e.waitingSince)
			}
		}
	}
	return now
}

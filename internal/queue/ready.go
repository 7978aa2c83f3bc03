package queue

import "time"

// lowPriorityEvery is how often a pick passes over the order of priorities. With every
// band full, edits get 7 picks in 8 and each lower band one in 24.
const lowPriorityEvery = 8

// ready holds the keys that can be handed out now.
type ready struct {
	bands [priorities]band
	len   int
	picks uint64
	turn  Priority // the band that was given the latest turn
	lanes freeList[lane]
}

// band holds the keys of one priority, a lane for each namespace.
type band struct {
	lanes map[string]*lane
	order list[lane] // the lanes in the order of their turns
	len   int
}

type lane struct {
	namespace string
	keys      list[entry]
	link      link[lane]
}

// push queues the entry at its causes' priority, or promotes it to that.
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

// pop removes and returns the entry whose turn it is; ready must not be empty.
func (r *ready) pop() *entry {
	b := &r.bands[r.pick()]
	l := b.order.first.element
	b.order.remove(&l.link)
	b.order.push(&l.link)
	e := l.keys.first.element
	r.remove(e)
	return e
}

// pick returns the band to serve next.
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

// oldest returns since when the longest waiting entry has been waiting. It looks
// at all of them: promotion leaves no order of age to rely on.
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

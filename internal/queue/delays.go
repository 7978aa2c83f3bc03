package queue

import (
	"container/heap"
	"time"
)

// forever is longer than any queue lives, and small enough to add to a moment.
const forever time.Duration = 1 << 61

func addDelay(now, delay time.Duration) time.Duration { return now + min(delay, forever) }

// timer is one moment at which something becomes of an entry. It lives inside
// the entry, so that setting it costs no allocation.
type timer struct {
	at    time.Duration // on the queue's clock
	slot  int           // its place in the heap plus one; zero when not set
	entry *entry
}

func (t *timer) set() bool { return t.slot != 0 }

// until returns how long it still runs, zero if it is not set.
func (t *timer) until(now time.Duration) time.Duration {
	if !t.set() {
		return 0
	}
	return max(t.at-now, 0)
}

// delays holds the timers that are set, the earliest first.
type delays struct{ heap timerHeap }

func (d *delays) set(t *timer, at time.Duration) {
	t.at = at
	if t.set() {
		heap.Fix(&d.heap, t.slot-1)
		return
	}
	heap.Push(&d.heap, t)
}

func (d *delays) drop(t *timer) {
	if t.set() {
		heap.Remove(&d.heap, t.slot-1)
	}
}

// next returns when the earliest timer is due; false if none is set.
func (d *delays) next() (time.Duration, bool) {
	if len(d.heap) == 0 {
		return 0, false
	}
	return d.heap[0].at, true
}

// popDue takes out the earliest timer if it is due, or returns nil.
func (d *delays) popDue(now time.Duration) *timer {
	if at, some := d.next(); !some || at > now {
		return nil
	}
	return heap.Pop(&d.heap).(*timer)
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.slot = len(*h) + 1
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.slot = 0
	return t
}

package queue

import (
	"container/heap"
	"time"
)

// forever is the longest delay. It is small enough to be added to a time.
const forever time.Duration = 1 << 61

func addDelay(now, delay time.Duration) time.Duration { return now + min(delay, forever) }

// timer is a time at which an entry is due. It is part of the entry, so setting it allocates
// nothing.
type timer struct {
	at    time.Duration // on the queue's clock
	slot  int           // index in the heap plus one; zero if not set
	entry *entry
}

func (t *timer) set() bool { return t.slot != 0 }

// until returns the time left; zero if it is not set.
func (t *timer) until(now time.Duration) time.Duration {
	if !t.set() {
		return 0
	}
	return max(t.at-now, 0)
}

// delays is a heap of timers, earliest first.
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

// popDue removes and returns the earliest timer if it is due, else nil.
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

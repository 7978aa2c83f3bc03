package queue

import (
	"context"
	"sync"
)

// maxIdle is how many workers wait for keys. Most controllers have nothing to do most of the time, and each goroutine
// takes several KiB.
const maxIdle = 2

// Work calls a function for one key after another, for up to so many at once, until the context ends or the queue
// is closed.
func (q *Queue) Work(ctx context.Context, workers int, do func(context.Context, Item) Outcome) {
	var running sync.WaitGroup
	var work func()
	work = func() {
		for {
			item, last, ok := q.nextForWorker(ctx, workers)
			if !ok {
				return
			}
			if last {
				running.Go(work)
			}
			q.Done(item.Key, do(ctx, item))
		}
	}
	q.mu.Lock()
	q.workers++
	q.mu.Unlock()
	running.Go(work)
	running.Wait()
}

// nextForWorker returns false if the worker ends. last means that it was the last that waited for keys, and that
// there may be another, which the caller starts.
func (q *Queue) nextForWorker(ctx context.Context, limit int) (item Item, last, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if item, ok = q.next(ctx, maxIdle); !ok {
		q.workers--
		return item, false, false
	}
	if last = q.waiting == 0 && q.workers < limit; last {
		q.workers++
	}
	return item, last, true
}

package queue

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
)

// TestWorkersStartWhenThereIsWork has more keys than workers: all workers are busy, and two wait afterwards.
func TestWorkersStartWhenThereIsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		const limit, keys = 8, 100
		busy, most := 0, 0
		finish, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			q.Work(t.Context(), limit, func(context.Context, Item) Outcome {
				q.mu.Lock()
				busy++
				most = max(most, busy)
				q.mu.Unlock()
				<-finish
				q.mu.Lock()
				busy--
				q.mu.Unlock()
				return NoRequeue()
			})
		}()
		for range 3 {
			synctest.Wait()
			if q.workers != q.waiting || q.workers > maxIdle {
				t.Errorf("%d workers, of which %d wait", q.workers, q.waiting)
			}
			for i := range keys {
				q.Add(Key{Name: strconv.Itoa(i)}, Cause{})
			}
			synctest.Wait()
			if busy != limit || q.workers != limit {
				t.Errorf("%d of %d workers are busy", busy, q.workers)
			}
			for range keys {
				finish <- struct{}{}
				synctest.Wait()
			}
		}
		if most != limit || len(q.entries) > 0 {
			t.Errorf("%d keys at once, %d are left", most, len(q.entries))
		}
		q.Close()
		<-ended
		if q.workers != 0 {
			t.Errorf("%d workers are left", q.workers)
		}
	})
}

package queue

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
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

func TestPending(t *testing.T) {
	q := New(Options{BaseDelay: time.Minute})
	defer q.Close()
	key := Key{Name: "a"}
	if p := q.Pending(key); p != (Pending{}) {
		t.Errorf("nothing is pending, but %+v", p)
	}
	q.Add(key, Cause{Kind: Start})
	if p := q.Pending(key); !p.Queued || p.Active || !p.Next.IsZero() {
		t.Errorf("queued, but %+v", p)
	}
	if _, ok := q.Next(t.Context()); !ok {
		t.Fatal("nothing came")
	}
	if p := q.Pending(key); p.Queued || !p.Active {
		t.Errorf("held, but %+v", p)
	}
	q.AddAfter(key, Cause{Kind: Resync}, time.Hour)
	q.Done(key, Retry())
	p := q.Pending(key)
	if p.Queued || p.Active || p.Attempts != 1 {
		t.Errorf("failed once, but %+v", p)
	}
	if wait := time.Until(p.Next); wait < 30*time.Second || wait > 2*time.Minute {
		t.Errorf("the retry comes before the resync, in about a minute; not in %v", wait)
	}
}

// AddAfter does not requeue a key that waits for a retry.
func TestPendingRetry(t *testing.T) {
	q := New(Options{})
	defer q.Close()
	key := Key{Name: "a"}
	q.Add(key, Cause{Kind: Start})
	if _, ok := q.Next(t.Context()); !ok {
		t.Fatal("nothing came")
	}
	q.AddAfter(key, Cause{Kind: Resync}, time.Minute)
	if wait := time.Until(q.Pending(key).Next); wait > time.Minute {
		t.Errorf("without a retry it comes with the resync, not in %v", wait)
	}
	q.Done(key, RetryAfter(time.Hour))
	if wait := time.Until(q.Pending(key).Next); wait < 50*time.Minute {
		t.Errorf("it comes in an hour, not in %v", wait)
	}
}

func TestDelayedOnAFixedClock(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	q := New(Options{Now: func() time.Time { return at }, Random: func() float64 { return 0 }})
	defer q.Close()
	key := Key{Name: "a"}
	if _, _, pending := q.Delayed(key); pending {
		t.Error("a delay that nothing has set")
	}
	q.AddAfter(key, Cause{Kind: Resync}, time.Minute)
	if cause, left, pending := q.Delayed(key); cause.Kind != Resync || left != time.Minute || !pending {
		t.Errorf("%v in %v, pending %v", cause, left, pending)
	}
}

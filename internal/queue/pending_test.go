package queue

import (
	"testing"
	"time"
)

func TestPending(t *testing.T) {
	q := New(Options{BaseDelay: time.Minute})
	defer q.Close()
	key := Key{Name: "a"}
	if p := q.Pending(key); p != (Pending{}) {
		t.Errorf("nothing is pending, but %+v", p)
	}
	q.Add(key, Cause{Kind: Start})
	if p := q.Pending(key); !p.Queued || p.Held || !p.Next.IsZero() {
		t.Errorf("queued, but %+v", p)
	}
	if _, ok := q.Next(t.Context()); !ok {
		t.Fatal("nothing came")
	}
	if p := q.Pending(key); p.Queued || !p.Held {
		t.Errorf("held, but %+v", p)
	}
	q.AddAfter(key, Cause{Kind: Resync}, time.Hour)
	q.Done(key, Retry())
	p := q.Pending(key)
	if p.Queued || p.Held || p.Attempts != 1 {
		t.Errorf("failed once, but %+v", p)
	}
	if wait := time.Until(p.Next); wait < 30*time.Second || wait > 2*time.Minute {
		t.Errorf("the retry comes before the resync, in about a minute; not in %v", wait)
	}
}

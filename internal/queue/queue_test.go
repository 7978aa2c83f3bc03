package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

var (
	edit   = queue.Cause{Kind: queue.ParentChanged}
	event  = queue.Cause{Kind: queue.ChildChanged, Detail: "Pod"}
	resync = queue.Cause{Kind: queue.Resync}
)

func key(namespace, name string) queue.Key { return queue.Key{Namespace: namespace, Name: name} }

// withFakeClock runs a test with a fake clock and a queue without jitter: its backoff is 1 s, 2 s,
// 4 s … 60 s, and 3 s for events.
func withFakeClock(t *testing.T, test func(*testing.T, *queue.Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{
			BaseDelay:  time.Second,
			MaxDelay:   time.Minute,
			EventDelay: 3 * time.Second,
			Random:     func() float64 { return 0 },
		})
		defer q.Close()
		test(t, q)
	})
}

func runWithFakeClock(t *testing.T, name string, test func(*testing.T, *queue.Queue)) {
	t.Run(name, func(t *testing.T) { withFakeClock(t, test) })
}

// pass advances the clock and waits until all goroutines are idle.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// next takes a key that must be ready.
func next(t *testing.T, q *queue.Queue) queue.Item {
	t.Helper()
	if q.Len() == 0 {
		t.Fatal("nothing is queued")
	}
	item, ok := q.Next(t.Context())
	if !ok {
		t.Fatal("Next returned false with a key queued")
	}
	return item
}

// expectNext takes a key that must be ready after so many failures, for these causes.
func expectNext(t *testing.T, q *queue.Queue, attempt int, causes string) queue.Item {
	t.Helper()
	item := next(t, q)
	if item.Attempt != attempt || item.Causes.String() != causes {
		t.Errorf("attempt %d because of %q, want %d because of %s", item.Attempt, item.Causes, attempt, causes)
	}
	return item
}

func wantQueued(t *testing.T, q *queue.Queue, want int) {
	t.Helper()
	if got := q.Len(); got != want {
		t.Fatalf("%d keys queued, want %d", got, want)
	}
}

// fail takes and fails the key several times, and waits for all backoffs but the last.
func fail(t *testing.T, q *queue.Queue, k queue.Key, times int) {
	t.Helper()
	q.Add(k, event)
	for n := range times {
		if n > 0 {
			pass(time.Minute)
		}
		if got := next(t, q); got.Key != k || got.Attempt != n {
			t.Fatalf("got %v after %d failures, want %v after %d", got.Key, got.Attempt, k, n)
		}
		q.Done(k, queue.Retry())
	}
}

// drain takes all queued keys and returns their names.
func drain(t *testing.T, q *queue.Queue) string {
	t.Helper()
	var names []string
	for q.Len() > 0 {
		item := next(t, q)
		names = append(names, item.Key.Name)
		q.Done(item.Key, queue.NoRequeue())
	}
	return strings.Join(names, " ")
}

func TestOrder(t *testing.T) {
	tests := []struct{ name, add, want string }{
		{"first in, first out", "a: periodic resync, b: periodic resync, c: periodic resync", "a b c"},
		{"edits, events, retries, background", "a: periodic resync, b: scheduled requeue, c: child changed, d: manual reconcile, e: initial list", "d c b e a"},
		{"the same key once", "a: periodic resync, b: periodic resync, a: initial list", "a b"},
		{"a stronger cause promotes", "a: periodic resync, b: periodic resync, c: periodic resync, c: parent changed", "c a b"},
		{"a weaker one does not move", "a: parent changed, b: parent changed, a: periodic resync", "a b"},
		{"namespaces take turns", "x/a: periodic resync, x/b: periodic resync, x/c: periodic resync, y/d: periodic resync, z/e: periodic resync, y/f: periodic resync", "a d e b f c"},
		{"a new namespace need not wait for all of another", "x/a: periodic resync, x/b: periodic resync, y/c: periodic resync", "a c b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := queue.New(queue.Options{})
			defer q.Close()
			for add := range strings.SplitSeq(test.add, ", ") {
				addAll(t, q, add)
			}
			if got := drain(t, q); got != test.want {
				t.Errorf("order %q, want %q", got, test.want)
			}
		})
	}
}

// addAll parses "namespace/name: kind of cause"; the namespace is optional.
func addAll(t *testing.T, q *queue.Queue, words string) {
	t.Helper()
	where, why, _ := strings.Cut(words, ": ")
	namespace, name, found := strings.Cut(where, "/")
	if !found {
		namespace, name = "", where
	}
	for kind := queue.Unspecified; kind <= queue.Start; kind++ {
		if kind.String() == why {
			q.Add(key(namespace, name), queue.Cause{Kind: kind})
			return
		}
	}
	t.Fatalf("no kind of cause is called %q", why)
}

func TestLowerPrioritiesDoNotStarve(t *testing.T) {
	q := queue.New(queue.Options{})
	defer q.Close()
	kinds := []queue.CauseKind{queue.ParentChanged, queue.ChildChanged, queue.RequeueAfter, queue.Resync}
	for _, kind := range kinds {
		for n := range 1000 {
			q.Add(key("", fmt.Sprint(kind, n)), queue.Cause{Kind: kind})
		}
	}
	picked := map[queue.Priority]int{}
	for range 240 {
		picked[next(t, q).Causes.Priority()]++
	}
	want := map[queue.Priority]int{queue.Edits: 210, queue.Events: 10, queue.Retries: 10, queue.Background: 10}
	if fmt.Sprint(picked) != fmt.Sprint(want) {
		t.Errorf("picked %v, want %v", picked, want)
	}
}

// Timers that are due again at once, more than the workers can serve, do not hold up the objects of the first list:
// each may have a user's edit.
func TestTimersDoNotHoldUpTheFirstList(t *testing.T) {
	q := queue.New(queue.Options{})
	defer q.Close()
	const listed = 2000
	for n := range listed {
		q.Add(key("", fmt.Sprint(n)), queue.Cause{Kind: queue.Start})
	}
	for picks := range listed {
		item := next(t, q)
		if !item.Causes.Has(queue.Start) {
			t.Fatalf("a timer is picked after %d of %d listed objects", picks, listed)
		}
		q.AddAfter(item.Key, queue.Cause{Kind: queue.RequeueAfter}, 0)
		q.Done(item.Key, queue.NoRequeue())
	}
}

func TestABusyNamespaceDoesNotStarveOthers(t *testing.T) {
	q := queue.New(queue.Options{})
	defer q.Close()
	for n := range 10_000 {
		q.Add(key("crowded", fmt.Sprint(n)), event)
	}
	q.Add(key("small", "one"), event)
	if got := []string{next(t, q).Key.Namespace, next(t, q).Key.Namespace}; !slices.Contains(got, "small") {
		t.Errorf("the first two keys are of %v, want one of namespace small", got)
	}
}

func TestOneWorkerPerKey(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		k := key("a", "b")
		q.Add(k, event)
		next(t, q)
		pass(time.Second)
		q.Add(k, edit)
		q.Add(k, resync)
		wantQueued(t, q, 0)
		pass(2 * time.Second)
		q.Done(k, queue.NoRequeue())
		again := expectNext(t, q, 0, "parent changed, periodic resync")
		if want := 2 * time.Second; again.Waited != want {
			t.Errorf("waited %v, want %v: the time since the first Add", again.Waited, want)
		}
	})
}

func TestNextBlocks(t *testing.T) {
	tests := []struct {
		name string
		end  func(q *queue.Queue, cancel func())
		want bool
	}{
		{"until a key is added", func(q *queue.Queue, _ func()) { q.Add(key("a", "b"), event) }, true},
		{"until a delay ends", func(q *queue.Queue, _ func()) { q.AddAfter(key("a", "b"), event, time.Hour) }, true},
		{"until the context ends", func(_ *queue.Queue, cancel func()) { cancel() }, false},
		{"until the queue is closed", func(q *queue.Queue, _ func()) { q.Close() }, false},
	}
	for _, test := range tests {
		runWithFakeClock(t, test.name, func(t *testing.T, q *queue.Queue) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			received := make(chan bool, 1)
			go func() {
				_, ok := q.Next(ctx)
				received <- ok
			}()
			synctest.Wait()
			if len(received) > 0 {
				t.Fatal("Next returned before there was a reason")
			}
			test.end(q, cancel)
			if got := <-received; got != test.want {
				t.Errorf("Next returned %v, want %v", got, test.want)
			}
		})
	}
}

// One alarm adds many keys: all waiting workers must get one.
func TestEveryWaitingWorkerIsWoken(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		const workers = 20
		got := make(chan queue.Key, workers)
		for n := range workers {
			q.AddAfter(key("", fmt.Sprint(n)), resync, time.Minute)
			go func() {
				item, _ := q.Next(t.Context())
				got <- item.Key
			}()
		}
		pass(time.Minute)
		if len(got) != workers {
			t.Errorf("%d workers got a key, want %d", len(got), workers)
		}
	})
}

// The first of two waiting workers is woken just as its context ends: the second must get the key.
func TestAStoppedWorkerPassesTheKeyOn(t *testing.T) {
	for range 100 {
		withFakeClock(t, func(t *testing.T, q *queue.Queue) {
			leaving, leave := context.WithCancel(t.Context())
			got := make(chan bool, 2)
			for _, ctx := range []context.Context{leaving, t.Context()} {
				go func() {
					_, ok := q.Next(ctx)
					got <- ok
				}()
				synctest.Wait()
			}
			q.Add(key("a", "b"), event)
			leave()
			synctest.Wait()
			q.Close()
			if one, other := <-got, <-got; !one && !other {
				t.Error("no worker got the key")
			}
		})
	}
}

func TestThousandsComeDueTogether(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		for n := range 5000 {
			q.AddAfter(key("", fmt.Sprint(n)), resync, time.Minute)
		}
		pass(time.Minute)
		wantQueued(t, q, 5000)
	})
}

func TestClose(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		q.Add(key("a", "held"), event)
		held := next(t, q)
		q.Add(key("a", "queued"), event)
		q.AddAfter(key("a", "delayed"), event, time.Second)
		q.Close()
		q.Close()
		q.Add(key("a", "late"), event)
		q.AddAfter(key("a", "later"), event, time.Second)
		q.Done(held.Key, queue.Retry())
		q.Forget(held.Key)
		if ended := q.RetryNow(); ended != 0 || q.Stats() != (queue.Stats{}) {
			t.Errorf("after Close %d backoffs ended, and %+v", ended, q.Stats())
		}
		pass(time.Hour)
		if item, ok := q.Next(t.Context()); ok {
			t.Errorf("Next handed out %v after Close", item.Key)
		}
	})
}

func TestStats(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		fail(t, q, key("a", "failing"), 3)
		q.AddAfter(key("a", "failing"), resync, time.Hour)
		q.AddAfter(key("a", "delayed"), resync, time.Hour)
		q.Add(key("a", "held"), edit)
		next(t, q)
		q.Add(key("a", "edited"), edit)
		pass(time.Second)
		q.Add(key("b", "resynced"), resync)
		pass(time.Second)
		want := queue.Stats{Depth: [4]int{1, 0, 0, 1}, Active: 1, Backoff: 1, Delayed: 2, OldestWait: 2 * time.Second}
		if got := q.Stats(); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
		if got := q.Stats().Queued(); got != q.Len() {
			t.Errorf("%d queued in stats, %d in Len", got, q.Len())
		}
	})
}

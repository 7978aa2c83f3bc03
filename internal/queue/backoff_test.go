package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

func TestBackoffDoublesToTheMaximum(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		k := key("a", "b")
		q.Add(k, event)
		for n, seconds := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			if item := next(t, q); item.Attempt != n {
				t.Fatalf("attempt %d, want %d", item.Attempt, n)
			}
			if delay := q.Done(k, queue.Retry()); delay != seconds*time.Second {
				t.Fatalf("delay %v after failure %d, want %v", delay, n+1, seconds*time.Second)
			}
			pass(seconds*time.Second - 1)
			wantQueued(t, q, 0)
			pass(1)
		}
		expectNext(t, q, 8, "retry 8")
		q.Done(k, queue.NoRequeue())
		fail(t, q, k, 1) // which starts without failures
	})
}

func TestJitterStaysWithinAQuarter(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 8, 0.5: 7, 0.999999999999: 6} {
		q := queue.New(queue.Options{BaseDelay: 8 * time.Hour, MaxDelay: 8 * time.Hour, Random: func() float64 { return random }})
		q.Add(key("a", "b"), event)
		next(t, q)
		delay := q.Done(key("a", "b"), queue.Retry())
		q.Close()
		if got := delay.Round(time.Second); got != want*time.Hour {
			t.Errorf("delay %v with random %v, want %v", got, random, want*time.Hour)
		}
	}
}

// A key has failed 5 times and waits 16 s. The cause comes a second after the failure.
func TestCausesInBackoff(t *testing.T) {
	tests := []struct {
		kind    queue.CauseKind
		after   time.Duration // when the key is handed out, from then
		attempt int
		causes  string
	}{
		{queue.ParentChanged, 0, 0, "parent changed"},
		{queue.ReconcileRequested, 0, 0, "manual reconcile"},
		{queue.HookChanged, 0, 0, "hook changed"},
		{queue.ChildChanged, 2 * time.Second, 5, "child changed, retry 5"},
		{queue.RelatedChanged, 2 * time.Second, 5, "related changed, retry 5"},
		{queue.StatusChanged, 15 * time.Second, 5, "parent status changed, retry 5"},
		{queue.RequeueAfter, 15 * time.Second, 5, "scheduled requeue, retry 5"},
		{queue.Resync, 15 * time.Second, 5, "periodic resync, retry 5"},
		{queue.Start, 15 * time.Second, 5, "initial list, retry 5"},
		{queue.Unspecified, 15 * time.Second, 5, "unspecified, retry 5"},
	}
	for _, test := range tests {
		runWithFakeClock(t, test.kind.String(), func(t *testing.T, q *queue.Queue) {
			k := key("a", "b")
			fail(t, q, k, 5)
			pass(time.Second)
			q.Add(k, queue.Cause{Kind: test.kind})
			if test.after > 0 {
				pass(test.after - 1)
				wantQueued(t, q, 0)
				pass(1)
			}
			if item := expectNext(t, q, test.attempt, test.causes); item.Waited != 0 {
				t.Errorf("waited %v", item.Waited)
			}
			q.Done(k, queue.NoRequeue())
			pass(time.Hour)
			wantQueued(t, q, 0)
		})
	}
}

func TestALateEventRunsAtOnce(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		fail(t, q, key("a", "b"), 5)
		pass(4 * time.Second)
		q.Add(key("a", "b"), event)
		expectNext(t, q, 5, "child Pod changed")
	})
}

func TestCausesDuringAFailingAttempt(t *testing.T) {
	tests := []struct {
		kind    queue.CauseKind
		delay   time.Duration // that Done returns
		attempt int           // of the next one
		waited  time.Duration // backoff is no waiting
	}{
		{queue.ParentChanged, 0, 0, time.Second},
		{queue.ChildChanged, 3 * time.Second, 5, 0},
		{queue.Resync, 16 * time.Second, 5, 0},
	}
	for _, test := range tests {
		runWithFakeClock(t, test.kind.String(), func(t *testing.T, q *queue.Queue) {
			k := key("a", "b")
			fail(t, q, k, 4)
			pass(time.Minute)
			next(t, q)
			q.Add(k, queue.Cause{Kind: test.kind})
			pass(time.Second)
			if got := q.Done(k, queue.Retry()); got != test.delay {
				t.Errorf("delay %v, want %v", got, test.delay)
			}
			pass(test.delay)
			item := next(t, q)
			if item.Attempt != test.attempt || !item.Causes.Has(test.kind) {
				t.Errorf("attempt %d because of %q, want %d because of %v", item.Attempt, item.Causes, test.attempt, test.kind)
			}
			if item.Waited != test.waited {
				t.Errorf("waited %v, want %v", item.Waited, test.waited)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		k := key("a", "b")
		fail(t, q, k, 2)
		pass(time.Minute)
		next(t, q)
		if delay := q.Done(k, queue.RetryAfter(20*time.Second)); delay != 20*time.Second {
			t.Errorf("delay %v, want the given one", delay)
		}
		q.Add(k, event)
		if ended := q.RetryNow(); ended != 0 {
			t.Errorf("RetryNow ended %d backoffs, want 0: the delay was given", ended)
		}
		pass(20*time.Second - 1)
		wantQueued(t, q, 0)
		pass(1)
		if item := next(t, q); item.Attempt != 2 {
			t.Errorf("attempt %d, want 2 as before", item.Attempt)
		}
		if delay := q.Done(k, queue.RetryAfter(0)); delay != 4*time.Second {
			t.Errorf("delay %v for RetryAfter(0), want the backoff's 4s", delay)
		}
		q.Add(k, edit)
		next(t, q)
	})
}

func TestRetryKeysNow(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		for _, name := range []string{"a", "b"} {
			q.Add(key(name, name), event)
		}
		for range 2 {
			q.Done(next(t, q).Key, queue.RetryIn(time.Minute))
		}
		pass(5 * time.Second)
		if ended := q.RetryKeysNow([]queue.Key{key("b", "b"), key("gone", "gone")}); ended != 1 {
			t.Fatalf("%d backoffs ended, want 1", ended)
		}
		if item := next(t, q); item.Key != key("b", "b") {
			t.Errorf("%v is retried", item.Key)
		} else {
			q.Done(item.Key, queue.NoRequeue())
		}
		wantQueued(t, q, 0)
	})
}

func TestRetryNow(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		for _, name := range []string{"a", "b", "c"} {
			q.Add(key(name, name), event)
		}
		for range 5 {
			pass(time.Minute)
			for q.Len() > 0 {
				q.Done(next(t, q).Key, queue.Retry())
			}
		}
		pass(5 * time.Second)
		fail(t, q, key("fresh", "fresh"), 1)
		q.AddAfter(key("other", "other"), resync, time.Hour)
		if ended := q.RetryNow(); ended != 3 {
			t.Fatalf("%d backoffs ended, want 3", ended)
		}
		for range 3 {
			item := expectNext(t, q, 5, "retry 5")
			q.Done(item.Key, queue.NoRequeue())
		}
		wantQueued(t, q, 0)
		pass(time.Second)
		if got := drain(t, q); got != "fresh" {
			t.Errorf("%q after the shortest delay, want fresh", got)
		}
	})
}

func TestTheEarliestAddAfterCounts(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		k := key("a", "b")
		q.AddAfter(k, resync, 30*time.Second)
		q.AddAfter(k, queue.Cause{Kind: queue.RequeueAfter}, 10*time.Second)
		q.AddAfter(k, queue.Cause{Kind: queue.Start}, 20*time.Second)
		pass(10*time.Second - 1)
		wantQueued(t, q, 0)
		pass(1)
		expectNext(t, q, 0, "scheduled requeue")
		q.Done(k, queue.NoRequeue())
		pass(time.Hour)
		wantQueued(t, q, 0)
	})
}

func TestAddKeepsTheTimerOfAddAfter(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		k := key("a", "b")
		q.AddAfter(k, resync, 10*time.Second)
		q.Add(k, edit)
		next(t, q)
		q.Done(k, queue.NoRequeue())
		pass(10 * time.Second)
		expectNext(t, q, 0, "periodic resync")
	})
}

func TestVeryLongDelays(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		q.AddAfter(key("a", "b"), resync, 1<<63-1)
		q.Add(key("c", "d"), event)
		next(t, q)
		q.Done(key("c", "d"), queue.RetryAfter(1<<63-1))
		q.AddAfter(key("e", "f"), resync, -1)
		q.AddAfter(key("g", "h"), resync, time.Minute)
		pass(time.Hour)
		if got := drain(t, q); got != "f h" {
			t.Errorf("handed out %q, want f, whose delay is not positive, and h", got)
		}
	})
}

func TestForget(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*testing.T, *queue.Queue, queue.Key)
		want    int // keys queued an hour later
	}{
		{"drops a backoff", func(t *testing.T, q *queue.Queue, k queue.Key) { fail(t, q, k, 2) }, 0},
		{"drops a delay", func(_ *testing.T, q *queue.Queue, k queue.Key) { q.AddAfter(k, resync, time.Second) }, 0},
		{"leaves a queued key", func(_ *testing.T, q *queue.Queue, k queue.Key) { q.Add(k, edit) }, 1},
		{"knows nothing of a strange key", func(*testing.T, *queue.Queue, queue.Key) {}, 0},
	}
	for _, test := range tests {
		runWithFakeClock(t, test.name, func(t *testing.T, q *queue.Queue) {
			k := key("a", "b")
			test.prepare(t, q, k)
			q.Forget(k)
			pass(time.Hour)
			wantQueued(t, q, test.want)
		})
	}
}

func TestForgetWhileHeld(t *testing.T) {
	withFakeClock(t, func(t *testing.T, q *queue.Queue) {
		k := key("a", "b")
		fail(t, q, k, 3)
		pass(time.Minute)
		next(t, q)
		q.Add(k, resync)
		q.Forget(k)
		wantQueued(t, q, 0)
		q.Done(k, queue.NoRequeue())
		expectNext(t, q, 0, "periodic resync")
	})
}

func TestCauseString(t *testing.T) {
	tests := []struct {
		cause queue.Cause
		want  string
	}{
		{queue.Cause{}, "unspecified"},
		{queue.Cause{Kind: queue.ParentChanged}, "parent changed"},
		{queue.Cause{Kind: queue.ChildChanged, Detail: "ConfigMap a/b"}, "child ConfigMap a/b changed"},
		{queue.Cause{Kind: queue.ChildChanged, Detail: "ConfigMap", Object: key("a", "b")}, "child ConfigMap a/b changed"},
		{queue.Cause{Kind: queue.RelatedChanged, Detail: "Node", Object: key("", "n1")}, "related Node n1 changed"},
		{queue.Cause{Kind: queue.Retrying, Detail: "3"}, "retry 3"},
		{queue.Cause{Kind: queue.ReconcileRequested, Detail: "requested by ann"}, "manual reconcile requested by ann"},
	}
	for _, test := range tests {
		if got := test.cause.String(); got != test.want {
			t.Errorf("%#v reads %q, want %q", test.cause, got, test.want)
		}
	}
}

func TestEveryKindAndPriorityHasItsOwnName(t *testing.T) {
	seen := map[string]bool{}
	for kind := queue.Unspecified; kind <= queue.Start; kind++ {
		if name := kind.String(); name == "" || seen[name] {
			t.Errorf("cause kind %d is named %q, as another or not at all", kind, name)
		} else {
			seen[name] = true
		}
	}
	for p := queue.Edits; p <= queue.Background; p++ {
		if name := p.String(); name == "" || seen[name] {
			t.Errorf("priority %d is named %q, as another or not at all", p, name)
		} else {
			seen[name] = true
		}
	}
}

func child(n int) queue.Cause {
	return queue.Cause{Kind: queue.ChildChanged, Detail: fmt.Sprintf("Pod p%d", n)}
}

func TestCausesAreDeduplicated(t *testing.T) {
	causes := queue.NewCauses(child(1), edit, child(1), edit, child(2))
	if got, want := causes.String(), "child Pod p1 changed, parent changed, child Pod p2 changed"; got != want {
		t.Errorf("causes %q, want %q", got, want)
	}
	if causes.Priority() != queue.Edits {
		t.Errorf("priority %v, want that of the parent's change", causes.Priority())
	}
}

func TestCausesAreBoundedAndKeepTheUrgent(t *testing.T) {
	added := []queue.Cause{resync}
	for n := range 20 {
		added = append(added, child(n))
	}
	causes := queue.NewCauses(append(added, edit)...)
	if len(causes.List()) != 8 || causes.More() != 14 {
		t.Errorf("%d listed and %d more, want 8 and 14", len(causes.List()), causes.More())
	}
	if causes.List()[7] != edit {
		t.Errorf("the last listed cause is %q, want the edit", causes.List()[7])
	}
	for _, kind := range []queue.CauseKind{queue.Resync, queue.ChildChanged, queue.ParentChanged} {
		if !causes.Has(kind) {
			t.Errorf("causes do not have %q", kind)
		}
	}
	if causes.Has(queue.Start) || causes.Has(200) {
		t.Error("causes have kinds that were not added")
	}
}

func TestOnly(t *testing.T) {
	retry := queue.Cause{Kind: queue.Retrying}
	if causes := queue.NewCauses(retry, retry); !causes.Only(queue.Retrying) || causes.Only(queue.Resync) {
		t.Error("two retries are only retries")
	}
	if causes := queue.NewCauses(retry, queue.Cause{Kind: queue.Resync}); causes.Only(queue.Retrying) || (queue.Causes{}).Only(queue.Retrying) {
		t.Error("a retry and a resync, or nothing, are not only retries")
	}
}

package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

// model has the guarantees of a queue without order and time: the kinds of causes still to be
// handed out for each key, and the keys that workers have.
type model struct {
	t       *testing.T
	q       *queue.Queue
	random  *rand.Rand
	pending map[queue.Key]map[queue.CauseKind]bool
	delayed map[queue.Key]int // AddAfters since the key was forgotten or handed out
	held    []queue.Key
}

func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withFakeClock(t, func(t *testing.T, q *queue.Queue) {
				m := &model{
					t: t, q: q, random: rand.New(rand.NewPCG(seed, 1)),
					pending: map[queue.Key]map[queue.CauseKind]bool{}, delayed: map[queue.Key]int{},
				}
				for range 500 {
					m.step()
				}
				m.finish()
			})
		})
	}
}

func (m *model) anyKey() queue.Key {
	return key(fmt.Sprint(m.random.IntN(3)), fmt.Sprint(m.random.IntN(4)))
}

func (m *model) anyCause() queue.Cause {
	return queue.Cause{
		Kind:   queue.CauseKind(m.random.IntN(int(queue.Start) + 1)),
		Detail: fmt.Sprint(m.random.IntN(20)),
	}
}

func (m *model) step() {
	switch m.random.IntN(12) {
	case 0, 1, 2:
		m.add()
	case 3:
		k := m.anyKey()
		m.delayed[k]++
		m.q.AddAfter(k, m.anyCause(), time.Duration(1+m.random.IntN(50))*time.Second)
	case 4, 5, 6:
		m.take()
	case 7, 8, 9:
		m.finishOne()
	case 10:
		if m.random.IntN(4) == 0 {
			m.q.RetryNow()
		}
	case 11:
		pass(time.Duration(m.random.IntN(10)) * time.Second)
	}
}

func (m *model) add() {
	k, cause := m.anyKey(), m.anyCause()
	if m.pending[k] == nil {
		m.pending[k] = map[queue.CauseKind]bool{}
	}
	m.pending[k][cause.Kind] = true
	m.q.Add(k, cause)
}

func (m *model) take() {
	if m.q.Len() == 0 {
		return
	}
	item := next(m.t, m.q)
	for _, k := range m.held {
		if k == item.Key {
			m.t.Fatalf("%v was handed out while a worker holds it", k)
		}
	}
	for kind := range m.pending[item.Key] {
		if !item.Causes.Has(kind) {
			m.t.Fatalf("%v was handed out for %q, not for %q", item.Key, item.Causes, kind)
		}
	}
	if item.Waited < 0 {
		m.t.Fatalf("%v waited %v", item.Key, item.Waited)
	}
	delete(m.pending, item.Key)
	delete(m.delayed, item.Key)
	m.held = append(m.held, item.Key)
}

func (m *model) finishOne() {
	if len(m.held) == 0 {
		return
	}
	k := m.held[0]
	m.held = m.held[1:]
	switch m.random.IntN(5) {
	case 0, 1:
		m.q.Done(k, queue.NoRequeue())
	case 2, 3:
		m.q.Done(k, queue.Retry())
	case 4:
		m.q.Done(k, queue.RetryAfter(time.Duration(m.random.IntN(30))*time.Second))
	}
}

// finish processes all keys: then nothing may be pending, active or left.
func (m *model) finish() {
	for range 10 {
		for len(m.held) > 0 {
			m.q.Done(m.held[0], queue.NoRequeue())
			m.held = m.held[1:]
		}
		for m.q.Len() > 0 {
			m.take()
			m.q.Done(m.held[len(m.held)-1], queue.NoRequeue())
			m.held = m.held[:len(m.held)-1]
		}
		pass(2 * time.Minute)
	}
	if len(m.pending) > 0 || len(m.delayed) > 0 {
		m.t.Errorf("never handed out: added %v, timed %v", m.pending, m.delayed)
	}
	if got := m.q.Stats(); got != (queue.Stats{}) {
		m.t.Errorf("left over: %+v", got)
	}
}

const crowdKeys = 20

// crowd runs many workers and many adders on threads. It counts the additions and records which of
// them the workers have seen.
type crowd struct {
	t           *testing.T
	q           *queue.Queue
	added, seen [crowdKeys]atomic.Int64
	held        [crowdKeys]atomic.Bool
}

func TestConcurrently(t *testing.T) {
	const adders, workers = 4, 8
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, q: queue.New(queue.Options{
			BaseDelay: time.Microsecond, MaxDelay: time.Millisecond, EventDelay: time.Microsecond,
		})}
		defer c.q.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var working, adding sync.WaitGroup
		for seed := range uint64(workers) {
			working.Go(func() { c.work(ctx, rand.New(rand.NewPCG(seed, 2))) })
		}
		for seed := range uint64(adders) {
			adding.Go(func() { c.add(rand.New(rand.NewPCG(seed, 3))) })
		}
		adding.Wait()
		pass(time.Hour)
		cancel()
		working.Wait()
		for n := range crowdKeys {
			if added, seen := c.added[n].Load(), c.seen[n].Load(); added != seen {
				t.Errorf("%v: saw add %d of %d", keyOf(n), seen, added)
			}
		}
	})
}

func (c *crowd) work(ctx context.Context, random *rand.Rand) {
	for item, ok := c.q.Next(ctx); ok; item, ok = c.q.Next(ctx) {
		n := int(item.Key.Name[0] - 'a')
		if c.held[n].Swap(true) {
			c.t.Errorf("%v is with two workers", item.Key)
		}
		c.seen[n].Store(c.added[n].Load())
		c.held[n].Store(false)
		c.q.Done(item.Key, anyOutcome(random))
	}
}

func (c *crowd) add(random *rand.Rand) {
	for range 3000 {
		n := random.IntN(crowdKeys)
		c.added[n].Add(1)
		c.q.Add(keyOf(n), queue.Cause{Kind: queue.CauseKind(random.IntN(int(queue.Start) + 1))})
	}
}

func keyOf(n int) queue.Key { return key(string(rune('a'+n%3)), string(rune('a'+n))) }

func anyOutcome(random *rand.Rand) queue.Outcome {
	switch random.IntN(4) {
	case 0:
		return queue.Retry()
	case 1:
		return queue.RetryAfter(time.Duration(random.IntN(3)) * time.Microsecond)
	default:
		return queue.NoRequeue()
	}
}

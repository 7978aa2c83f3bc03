package composite

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// A other parent of fault H1: a response to one parent ended the backoff of all others, even of those
// with an error from the hook.
func TestRecoveryRetriesUnreachableParents(t *testing.T) {
	none, wrong := controller.Result{Failing: true, HookFailing: true, Unreachable: true}, controller.Result{Failing: true, HookFailing: true}
	for name, c := range map[string]outageCase{
		"a response after no response":  {former: none, retries: true},
		"an error after no response":    {former: none, now: wrong, retries: true},
		"a response after an error":     {former: wrong},
		"no response after no response": {former: none, now: none},
		"a response after a response":   {},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { c.check(t) }) })
	}
}

// outageCase is how the run of one parent ended, and how the former one did.
type outageCase struct {
	former, now controller.Result
	// retries means that unreachable parents are retried.
	retries bool
}

func (c outageCase) check(t *testing.T) {
	t.Helper()
	base := newTestBase(nil)
	q, m := base.Queue, base.Memories
	defer q.Close()
	waits := map[bool]queue.Key{true: {Name: "without a response"}, false: {Name: "with an error"}}
	for unanswered, key := range waits {
		m.SetResult(memoryFor(m, key), controller.Result{Failing: true, HookFailing: true, Unreachable: unanswered}, nil)
		q.Add(key, queue.Cause{Kind: queue.Start})
		item, _ := q.Next(t.Context())
		q.Done(item.Key, queue.RetryIn(time.Hour))
	}
	<-time.After(time.Minute)
	key := queue.Key{Name: "subject"}
	r := &run{writes: &writes{Controller: &Controller{Base: base}, Run: &controller.Run{Item: queue.Item{Key: key}}, memory: memoryFor(m, key)}}
	m.SetResult(r.memory, c.former, nil)
	r.recordResult(c.now, nil)
	if ended := q.RetryKeysNow([]queue.Key{waits[true]}) == 0; ended != c.retries {
		t.Errorf("the wait of the parent without a response is over: %v", ended)
	}
	if q.RetryKeysNow([]queue.Key{waits[false]}) == 0 {
		t.Error("the wait of the parent that got an error is over")
	}
}

func memoryFor(m *controller.Memories, key queue.Key) *memory {
	of, _ := m.Get(key, "u")
	return of.(*memory)
}

// withMemory leaves out whether the memory is fresh.
func withMemory(of *controller.Run, m controller.Remembered, _ bool) (*controller.Run, controller.Remembered) {
	return of, m
}

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

// The neighbour of fault H1: a parent that gets an answer again ended the backoffs of all
// others, also of those that the hook had answered with an error.
func TestAnAnswerEndsTheWaitOfThoseWithoutOne(t *testing.T) {
	none, wrong := trouble{failing: true, ofHook: true, unanswered: true}, trouble{failing: true, ofHook: true}
	for name, c := range map[string]answer{
		"a response after no answer":  {former: none, ends: true},
		"an error after no answer":    {former: none, now: wrong, ends: true},
		"a response after an error":   {former: wrong},
		"no answer after no answer":   {former: none, now: none},
		"a response after a response": {},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { c.check(t) }) })
	}
}

// answer is how the run of one parent ended, after another end.
type answer struct {
	former, now trouble
	// ends says that the wait of a parent without an answer is over.
	ends bool
}

func (c answer) check(t *testing.T) {
	t.Helper()
	q, m := queue.New(queue.Options{}), newMemories()
	defer q.Close()
	waits := map[bool]queue.Key{true: {Name: "without an answer"}, false: {Name: "with an error"}}
	for unanswered, key := range waits {
		m.note(m.of(key, key.Name), 0, trouble{failing: true, ofHook: true, unanswered: unanswered}, nil)
		q.Add(key, queue.Cause{Kind: queue.Start})
		item, _ := q.Next(t.Context())
		q.Done(item.Key, queue.RetryIn(time.Hour))
	}
	<-time.After(time.Minute)
	key := queue.Key{Name: "subject"}
	r := &run{Controller: &Controller{queue: q, memories: m}, item: queue.Item{Key: key}, memory: m.of(key, "subject")}
	m.note(r.memory, 0, c.former, nil)
	r.note(c.now, nil)
	if ended := q.RetryKeysNow([]queue.Key{waits[true]}) == 0; ended != c.ends {
		t.Errorf("the wait of the parent without an answer is over: %v", ended)
	}
	if q.RetryKeysNow([]queue.Key{waits[false]}) == 0 {
		t.Error("the wait of the parent that was answered with an error is over")
	}
}

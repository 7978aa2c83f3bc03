package controller

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// testMemory is the memory of a loop with one field.
type testMemory struct {
	Memory

	digest uint64
}

func newTestMemories() *Memories {
	return NewMemories(func() Remembered { return new(testMemory) })
}

// get returns the memory of an object.
func get(m *Memories, key queue.Key, uid string) *testMemory {
	memory, _ := m.Get(key, uid)
	return memory.(*testMemory)
}

// The sums match the memories, however objects are created, deleted, fail and recover.
func TestMemoriesCount(t *testing.T) {
	for seed := range uint64(50) {
		r, m := rand.New(rand.NewPCG(seed, seed)), newTestMemories()
		for range 100 {
			key := queue.Key{Namespace: "town", Name: fmt.Sprint("o", r.IntN(4))}
			if r.IntN(5) == 0 {
				m.Drop(key)
				continue
			}
			failing := r.IntN(2) == 0
			of := get(m, key, fmt.Sprint("u-", r.IntN(2)))
			result := Result{Failing: failing, HookFailing: failing && r.IntN(2) == 0, Message: "of " + key.Name}
			if r.IntN(2) == 0 {
				result.Fault = &failure.Fault{Kind: failure.Forbidden}
			}
			result.Children = r.IntN(5)
			m.SetResult(key, of, result, true)
			m.SetPaused(of.common(), r.IntN(2) == 0)
		}
		var want, got Health
		for _, of := range m.byKey {
			one := of.common()
			want.Children += one.Result.Children
			want.Paused += boolToInt(one.paused)
			want.Failing += boolToInt(one.Result.Failing)
			want.HookFailing += boolToInt(one.Result.HookFailing)
			want.Forbidden += boolToInt(one.Result.Failing && one.Result.Fault != nil)
		}
		m.addTo(&got)
		if got.Children != want.Children || got.Paused != want.Paused || got.Failing != want.Failing || got.HookFailing != want.HookFailing || got.Forbidden != want.Forbidden || (got.ForbiddenMessage != "") != (want.Forbidden > 0) || len(got.ForbiddenNamespaces) != min(1, want.Forbidden) {
			t.Errorf("seed %d: got %+v, want %+v", seed, got, want)
		}
	}
}

func TestMemoryIsPerUID(t *testing.T) {
	m, key := newTestMemories(), queue.Key{Name: "p"}
	first := get(m, key, "u-1")
	first.digest = 7
	if get(m, key, "u-1") != first {
		t.Error("the memory is lost")
	}
	if get(m, key, "u-2").digest != 0 {
		t.Error("an object has the memory of an earlier one of its name")
	}
	m.Drop(key)
	m.Drop(key)
	if m.Len() != 0 {
		t.Error("a deleted object has a memory")
	}
}

// countingMemory counts releases.
type countingMemory struct {
	Memory

	released *int
}

func (m *countingMemory) Release() { *m.released++ }

func TestDropReleases(t *testing.T) {
	released := 0
	m := NewMemories(func() Remembered { return &countingMemory{released: &released} })
	m.Get(queue.Key{Name: "p"}, "u-1")
	m.Get(queue.Key{Name: "p"}, "u-2")
	m.Drop(queue.Key{Name: "p"})
	if released != 2 {
		t.Errorf("released %d memories, want 2", released)
	}
}

func TestLastErrorIsKept(t *testing.T) {
	m := newTestMemories()
	of := get(m, queue.Key{Name: "p"}, "u")
	m.SetResult(queue.Key{Name: "p"}, of, Result{Failing: true, Message: "no"}, true)
	m.SetResult(queue.Key{Name: "p"}, of, Result{}, false)
	var h Health
	m.addTo(&h)
	if h.LastError.Message != "no" || h.Failing != 0 {
		t.Errorf("got %+v", h)
	}
}

// Fault U1: an object fails since the first failure in a row. A run that only waits is no
// further attempt.
func TestFailingSince(t *testing.T) {
	m, key := newTestMemories(), queue.Key{Name: "p"}
	of := get(m, key, "u")
	fails := func(second int64) {
		m.SetResult(queue.Key{Name: "p"}, of, Result{Failing: true, Message: "no", Since: time.Unix(second, 0)}, true)
	}
	fails(1)
	fails(2)
	m.SetResult(queue.Key{Name: "p"}, of, Result{Failing: true, Since: time.Unix(3, 0)}, false)
	fails(4)
	if state := m.objectState(key, "u"); state.Attempts != 3 || state.Since != time.Unix(1, 0) || state.Error != "no" {
		t.Errorf("got %+v", state)
	}
	m.SetResult(queue.Key{Name: "p"}, of, Result{}, false)
	fails(9)
	if state := m.objectState(key, "u"); state.Attempts != 1 || state.Since != time.Unix(9, 0) {
		t.Errorf("after a recovery: got %+v", state)
	}
}

// What traces add to a run is free while they are off.
func TestRunsWithoutTracesAllocateNothing(t *testing.T) {
	o := must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop","uid":"u","resourceVersion":"7"}}`))).In(t)
	b := &Base{Dependencies: Dependencies{Log: slog.New(slog.DiscardHandler)}}
	r := &Run{Item: queue.Item{Key: KeyOf(o), Causes: queue.NewCauses(queue.Cause{Kind: queue.ParentChanged})}, Stored: o, Log: b.Log, base: b}
	ctx := t.Context()
	if allocs := testing.AllocsPerRun(1000, func() {
		if b.tracedVersion(o) != 0 || r.startTrace(ctx, "", 1) != ctx || r.trace.ID() != "" {
			t.Error("a run without traces has one")
		}
	}); allocs != 0 {
		t.Errorf("a run without traces allocates %v times", allocs)
	}
}

package plan

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault S4: what a response of as many values as are read by default takes until it is
// written. Without a bound, one of 32 MiB took 3.4 GB.
func TestMemoryOfLargeResponses(t *testing.T) {
	const values, most = 500_000, 256 << 20
	list := "[" + strings.Repeat("{},", values-100) + "{}]"
	child := json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w"},"data":` + list + `}`)
	for _, strategy := range []Strategy{Merge, ServerSide} {
		f := familyOf(t, nil)
		f.Rules[0].Strategy = strategy
		if grown := growth(func() {
			desired, err := f.Desired([]json.RawMessage{child})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Changes(nil, desired, nil); err != nil {
				t.Fatal(err)
			}
		}); grown > most {
			t.Errorf("a child, %s: %d MiB", strategy, grown>>20)
		}
	}
	f := familyOf(t, nil)
	reply := &hook.Response{Status: json.RawMessage(`{"a":` + list + `}`)}
	if grown := growth(func() {
		if _, err := f.Lay(f.Parent, object.Resource{Custom: true, Status: true}, reply, time.Now()); err != nil {
			t.Fatal(err)
		}
	}); grown > most {
		t.Errorf("a status: %d MiB", grown>>20)
	}
}

// growth is by how much the heap was larger at most while do ran.
func growth(do func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, done, most := heap(), make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		largest := before
		for {
			largest = max(largest, heap())
			select {
			case <-tick.C:
			case <-done:
				most <- largest
				return
			}
		}
	}()
	do()
	close(done)
	return <-most - before
}

package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/heaptest"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault S4: the memory for a response with the default maximum of values. Without a limit, a
// response of 32 MiB took 3.4 GB.
func TestMemoryOfLargeResponses(t *testing.T) {
	const values, most = 500_000, 192 << 20
	list := "[" + strings.Repeat("{},", values-100) + "{}]"
	child := json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w"},"data":` + list + `}`)
	for _, strategy := range []ApplyStrategy{Merge, ServerSide} {
		f := plannerOf(t, nil)
		f.Rules[0].Strategy = strategy
		if took := heaptest.Allocated(func() {
			desired, _, err := f.Desired([]json.RawMessage{child})
			if err != nil {
				t.Fatal(err)
			}
			must.Get(f.Changes(nil, desired, nil)).In(t)
		}); took > most {
			t.Errorf("a child, %s: %d MiB", strategy, took>>20)
		}
	}
	f := plannerOf(t, nil)
	response := &hook.Response{Status: json.RawMessage(`{"a":` + list + `}`)}
	if took := heaptest.Allocated(func() {
		must.Get(f.OverlayResponse(f.Parent, object.Resource{Custom: true, Status: true}, response, time.Now())).In(t)
	}); took > most {
		t.Errorf("a status: %d MiB", took>>20)
	}
}

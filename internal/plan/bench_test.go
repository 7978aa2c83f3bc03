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

const benchedDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"town","labels":{"app":"x"}},"spec":{"replicas":2,` +
	`"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[` +
	`{"name":"c","image":"registry.example/c:1","args":["--a","--b"],"env":[{"name":"A","value":"x"},{"name":"B","value":"x"}],"ports":[{"containerPort":80}],` +
	`"resources":{"limits":{"cpu":"500m","memory":"1Gi"}},"volumeMounts":[{"name":"v","mountPath":"/v"}]},{"name":"side","image":"registry.example/s:1"}],` +
	`"volumes":[{"name":"v","configMap":{"name":"v"}}]}}}}`

// BenchmarkChanges plans one Deployment: one to create, one that is up to date but has to be
// compared, and one that is known to be up to date.
func BenchmarkChanges(b *testing.B) {
	for _, strategy := range []ApplyStrategy{Merge, ServerSide} {
		f := plannerOf(b, nil)
		f.OmitValues, f.Manager = true, "setpoint-compositecontroller-shops"
		rule, _ := f.Rules.For(object.GroupKind{Group: "apps", Kind: "Deployment"})
		rule.Strategy = strategy
		desired := []Child{{Rule: rule, Object: parse(b, benchedDeployment)}}
		created := must.Get(f.Changes(nil, desired, nil)).In(b)
		observed := []*object.Object{created.Stages[0][0].After}
		for name, c := range map[string]struct {
			observed []*object.Object
			settled  UpToDate
		}{
			"create": {nil, nil}, "compare": {observed, nil}, "known": {observed, func(*object.Object, uint64) bool { return true }},
		} {
			b.Run(string(strategy)+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					must.Get(f.Changes(c.observed, desired, c.settled)).In(b)
				}
			})
		}
	}
}

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
			must.Succeed(t, err)
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

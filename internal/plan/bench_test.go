package plan

import (
	"testing"

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

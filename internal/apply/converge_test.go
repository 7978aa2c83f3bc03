package apply_test

import (
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Whatever the desired objects, the methods, the strategies and the edits of others are, an applied
// plan leaves nothing to do. After a restart, each child takes at most one write, which changes
// only managed fields. An existing object of another owner stays as it is.
func TestConverges(t *testing.T) {
	seeded(t, func(w generator, seed uint64) {
		k := newTestController(t, "metacontroller.k8s.io/last-applied-configuration", w.IntN(2) == 0)
		k.create("configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs"},"data":{"k":"theirs"}}`)
		for turn := range 4 {
			method, strategy := plan.InPlace, plan.Merge
			if w.IntN(3) == 0 {
				method = plan.Recreate
			}
			if w.IntN(2) == 0 {
				strategy = plan.ServerSide
			}
			k.setRules(rules(method, strategy))
			response := w.response()
			k.reconcile(append(response, w.object("v1", "ConfigMap", "theirs", map[string]any{"data": map[string]any{"k": "ours"}})))
			k.reconcile(response)
			k.checkRestart(response)
			for key, edit := range w.edits() {
				k.editAs("others", key, edit)
			}
			k.add(w)
			k.reconcile(response)
			if t.Failed() {
				t.Fatalf("seed %d, turn %d: %s %s\n%s\nwish: %s", seed, turn, method, strategy, k.show(), response)
			}
		}
		if theirs := k.objects["configmaps/theirs"]; theirs.GetResourceVersion() != "1" {
			t.Errorf("seed %d: the object of another owner was written", seed)
		}
	})
}

// checkRestart drops the known up-to-date children and applies the resulting plan.
func (k *testController) checkRestart(response []json.RawMessage) {
	k.t.Helper()
	before := map[string]string{}
	for _, o := range k.observed() {
		before[o.Ref().String()] = normalize(o.JSON())
	}
	clear(k.upToDate)
	p := k.plan(response)
	touched := map[string]bool{}
	for _, stage := range p.Stages {
		for _, action := range stage {
			if touched[action.Ref.String()] {
				k.t.Errorf("%s: written twice", action)
			}
			touched[action.Ref.String()] = true
		}
	}
	k.apply(p)
	for _, o := range k.observed() {
		if now := normalize(o.JSON()); now != before[o.Ref().String()] {
			k.t.Errorf("a restart changed %s\nfrom %s\nto   %s", o.Ref(), before[o.Ref().String()], now)
		}
	}
	if again := k.plan(response); !again.Empty() {
		k.t.Errorf("after a restart and a turn there is still to do:\n%s", again)
	}
}

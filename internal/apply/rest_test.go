package apply_test

import (
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/plan"
)

// TestComesToRest: whatever the wish, the method, the strategy and the one
// before, and whatever others did meanwhile, a plan carried out leaves nothing to
// do; after a restart at most one write a child is made to find that out again,
// and none changes anything that is not about the account of fields; and an
// object of a desired name that is somebody else's stays as it is.
func TestComesToRest(t *testing.T) {
	seeded(t, func(w wisher, seed uint64) {
		k := newKeeper(t, "metacontroller.k8s.io/last-applied-configuration", w.IntN(2) == 0)
		k.create("configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs"},"data":{"k":"theirs"}}`)
		for turn := range 4 {
			method, strategy := plan.InPlace, plan.Merge
			if w.IntN(3) == 0 {
				method = plan.Recreate
			}
			if w.IntN(2) == 0 {
				strategy = plan.ServerSide
			}
			k.ruled(rules(method, strategy))
			reply := w.reply()
			k.keep(append(reply, w.object("v1", "ConfigMap", "theirs", map[string]any{"data": map[string]any{"k": "ours"}})))
			k.keep(reply)
			k.checkRestart(reply)
			for key, edit := range w.edits() {
				k.others("others", key, edit)
			}
			k.add(w)
			k.keep(reply)
			if t.Failed() {
				t.Fatalf("seed %d, turn %d: %s %s\n%s\nwish: %s", seed, turn, method, strategy, k.show(), reply)
			}
		}
		if theirs := k.objects["configmaps/theirs"]; theirs.GetResourceVersion() != "1" {
			t.Errorf("seed %d: somebody else's object was written to", seed)
		}
	})
}

// checkRestart forgets what was agreed upon, and carries out what that leads to.
func (k *keeper) checkRestart(reply []json.RawMessage) {
	k.t.Helper()
	before := map[string]string{}
	for _, o := range k.observed() {
		before[o.Ref().String()] = essentials(o.JSON())
	}
	clear(k.settled)
	p := k.plan(reply)
	touched := map[string]bool{}
	for _, stage := range p.Stages {
		for _, action := range stage {
			if touched[action.Ref.String()] {
				k.t.Errorf("%s: written twice", action)
			}
			touched[action.Ref.String()] = true
		}
	}
	k.carry(p)
	for _, o := range k.observed() {
		if now := essentials(o.JSON()); now != before[o.Ref().String()] {
			k.t.Errorf("a restart changed %s\nfrom %s\nto   %s", o.Ref(), before[o.Ref().String()], now)
		}
	}
	if again := k.plan(reply); !again.Empty() {
		k.t.Errorf("after a restart and a turn there is still to do:\n%s", again)
	}
}

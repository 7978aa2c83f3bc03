package router

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// What counts as a failure of a new version: three in a row, or one that no retry fixes; not those of the parent, or
// that it had before. Those that may be of other clients or the API server stop a rollout, unless it had them before.
func TestMovedParentObserved(t *testing.T) {
	ok, postponed := End{Outcome: record.Synced}, End{Outcome: record.Postponed, Err: controller.ErrConflict}
	fails := func(blame Blame) End {
		return End{Outcome: record.Failed, Err: errors.New("sync hook: broken"), Blame: blame}
	}
	broken, unselective, elsewhere, held := fails(Version), fails(Parent), fails(Elsewhere), fails(DeletionGuard)
	failed := rollout.Observed{Failed: 1, Failure: "Shop a: sync hook: broken"}
	reconciled := rollout.Observed{Reconciled: 1}
	blocked := rollout.Observed{Blocked: "Shop a: sync hook: broken"}
	brokenBefore, elsewhereBefore := failures{attempts: maxFlakes + 1}, failures{elsewhere: maxFlakes + 1}
	for name, c := range map[string]struct {
		before failures
		ends   []End
		want   rollout.Observed
	}{
		"reconciled":             {ends: []End{ok}, want: reconciled},
		"postponed":              {ends: []End{postponed}, want: rollout.Observed{}},
		"two flakes":             {ends: []End{broken, broken}, want: rollout.Observed{}},
		"three failures":         {ends: []End{broken, broken, broken}, want: failed},
		"flakes apart":           {ends: []End{broken, broken, ok, broken}, want: rollout.Observed{}},
		"a terminal failure":     {ends: []End{fails(VersionForGood)}, want: failed},
		"after a success":        {ends: []End{ok, broken, broken, broken}, want: failed},
		"failed before":          {before: brokenBefore, ends: []End{broken, broken, broken}, want: reconciled},
		"failed before, and now": {before: brokenBefore, ends: []End{ok, broken, broken, broken}, want: failed},
		"failed elsewhere":       {before: elsewhereBefore, ends: []End{broken, broken, broken}, want: failed},

		"its own selector":             {ends: []End{unselective}, want: reconciled},
		"its own selector, and flakes": {ends: []End{broken, unselective, broken, unselective}, want: rollout.Observed{}},
		"fails, then its own selector": {ends: []End{broken, broken, broken, unselective}, want: failed},
		"its own selector is mended":   {ends: []End{unselective, broken}, want: rollout.Observed{}},

		"another client":                  {ends: []End{elsewhere, elsewhere, elsewhere}, want: blocked},
		"another client, for a moment":    {ends: []End{elsewhere, elsewhere}, want: rollout.Observed{}},
		"another client, no longer":       {ends: []End{elsewhere, elsewhere, elsewhere, ok}, want: reconciled},
		"another client, before too":      {before: elsewhereBefore, ends: []End{elsewhere, elsewhere, elsewhere}, want: reconciled},
		"another client, again":           {before: elsewhereBefore, ends: []End{ok, elsewhere, elsewhere, elsewhere}, want: blocked},
		"another client, and broken":      {ends: []End{elsewhere, elsewhere, elsewhere, broken, broken, broken}, want: failed},
		"another client of a broken hook": {before: brokenBefore, ends: []End{elsewhere, elsewhere, elsewhere}, want: blocked},

		"another client, after it": {ends: []End{ok, elsewhere, elsewhere}, want: reconciled},

		"held deletions":        {ends: []End{held}, want: rollout.Observed{Held: "the deletion guard holds deletions of children of Shop a"}},
		"deletions held before": {ends: []End{held, ok}, want: reconciled},
	} {
		m := movedParent{before: c.before}
		for _, e := range c.ends {
			m.add(&e)
		}
		if diff := cmp.Diff(c.want, m.report("Shop a")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDelayAt(t *testing.T) {
	if delayAt(5, 0) != 0 || delayAt(5, 10) != 500*time.Millisecond {
		t.Errorf("%v, %v", delayAt(5, 0), delayAt(5, 10))
	}
}

package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// A failure that is retried shows before it counts as one, also of a parent that was compared before.
func TestShadowObservesRetriedFailures(t *testing.T) {
	shop := must.Get(object.Parse([]byte(`{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a"}}`))).In(t)
	refused := shadowResult{failure: "refused"}
	failed := rollout.Shadow{Compared: 1, Failed: 1, Failure: "Shop a: refused"}
	for name, c := range map[string]struct {
		results []shadowResult
		want    rollout.Shadow
	}{
		"not compared":         {nil, rollout.Shadow{}},
		"compared":             {[]shadowResult{{}}, rollout.Shadow{Compared: 1}},
		"two flakes":           {[]shadowResult{refused, refused}, rollout.Shadow{Retrying: 1, RetryingFailure: "Shop a: refused"}},
		"a flake, then none":   {[]shadowResult{refused, {}}, rollout.Shadow{Compared: 1}},
		"three failures":       {[]shadowResult{refused, refused, refused}, failed},
		"a terminal failure":   {[]shadowResult{{failure: "refused", terminal: true}}, failed},
		"compared, then fails": {[]shadowResult{{}, refused}, rollout.Shadow{Compared: 1, Retrying: 1, RetryingFailure: "Shop a: refused"}},
	} {
		of := parent{uid: shop.UID()}
		p := shadowedParent{uid: shop.UID()}
		for _, result := range c.results {
			p.add(&result)
		}
		s := shadow{parents: map[controller.ObjectID]shadowedParent{of.ObjectID: p}}
		var o rollout.Observed
		s.observe(of, shop, &o)
		if diff := cmp.Diff(c.want, o.Shadow); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A parent has one comparison at a time. One that began in an earlier shadow does not count in the next.
func TestOneComparisonOfAParentAtATime(t *testing.T) {
	v, of, now := &Assignment{}, parent{uid: "u-a"}, time.Now()
	v.SetShadow(true, 10)
	if s := &v.shadow; !s.tryAcquire(of, now) || s.tryAcquire(of, now) || len(s.due([]parent{of}, now.Add(time.Hour))) != 0 {
		t.Error("two comparisons of a parent")
	}
	v.SetShadow(false, 0)
	v.SetShadow(true, 10)
	s := &v.shadow
	s.parents[of.ObjectID] = shadowedParent{uid: of.uid} // It was queued for the next shadow.
	s.release(of, &shadowResult{})
	if s.get(of).settled {
		t.Error("the result of an earlier shadow counts")
	}
	if !s.tryAcquire(of, now) {
		t.Fatal("no comparison after the former has ended")
	}
	s.release(of, &shadowResult{})
	if !s.get(of).settled {
		t.Error("the result does not count")
	}
}

// loop reconciles nothing.
type loop struct{ controller.Loop }

func (loop) NewMemory() controller.Remembered { return nil }

// Values of a Secret that only one of the versions selects are tokens in both responses.
func TestComparisonMasksSecretsOfBothVersions(t *testing.T) {
	parse := func(text string) *object.Object {
		return must.Get(object.Parse([]byte(text))).In(t)
	}
	secret := parse(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db","namespace":"shop"},"data":{"password":"aHVudGVyMmh1bnRlcg=="}}`)
	selected := []hook.Group{{APIVersion: "v1", Kind: "Secret", Objects: []hook.Entry{{Namespace: "shop", Name: "db", Object: secret.JSON()}}}}
	response := &hook.Response{Children: []json.RawMessage{json.RawMessage(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"db"},"data":{"password":"hunter2hunter"}}`)}}
	parent := parse(`{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","namespace":"shop","uid":"u-a"}}`)
	for name, c := range map[string]comparison{
		"the version before selects it": {relatedBefore: selected},
		"the new version selects it":    {request: hook.Request{Related: selected}},
	} {
		c.Router = New(controller.New(loop{}, controller.Options{}, controller.Dependencies{Log: slog.New(slog.DiscardHandler)}), Options{})
		c.parent, c.before = parent, response
		compared := must.Get(c.compareWith(response, nil)).In(t)
		for side, text := range map[string]string{"before": fmt.Sprint(compared.Before), "after": fmt.Sprint(compared.After)} {
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s: the response %s has the value: %s", name, side, text)
			}
		}
	}
}

// A shadow that begins again, after a rollout was taken back, has compared nothing yet.
func TestShadowBeginsAnew(t *testing.T) {
	v := &Assignment{}
	of := parent{uid: "u-a"}
	v.SetShadow(true, 1)
	if !v.shadow.tryAcquire(of, time.Now()) {
		t.Fatal("not compared")
	}
	v.shadow.release(of, &shadowResult{failure: "refused", terminal: true})
	v.SetShadow(true, 1)
	if len(v.shadow.parents) != 1 {
		t.Error("the result is lost while the shadow goes on")
	}
	v.SetShadow(false, 1)
	v.SetShadow(true, 1)
	if len(v.shadow.parents) != 0 {
		t.Errorf("begins with %d results", len(v.shadow.parents))
	}
}

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

// A hook that has no version any more has none in the status; one that has it for some parents only keeps it.
func TestSettledLogicVersion(t *testing.T) {
	for name, c := range map[string]struct {
		restored string
		// responses are the versions in responses about two parents, one after the other.
		responses [][2]string
		want      ReportedState
	}{
		"no response":          {"", nil, ReportedState{}},
		"none since a restart": {"one", nil, ReportedState{Known: true, Current: "one"}},
		"none ever":            {"", [][2]string{{"", ""}}, ReportedState{Known: true}},
		"the first":            {"", [][2]string{{"one", "one"}}, ReportedState{Known: true, Current: "one"}},
		"another one":          {"one", [][2]string{{"two", "two"}}, ReportedState{Known: true, Current: "two", Before: "one"}},
		"no longer":            {"", [][2]string{{"one", "one"}, {"", ""}}, ReportedState{Known: true}},
		"not since a restart":  {"one", [][2]string{{"", ""}}, ReportedState{Known: true}},
		"not for all":          {"", [][2]string{{"one", "one"}, {"one", ""}}, ReportedState{Known: true, Current: "one"}},
		"again":                {"", [][2]string{{"one", "one"}, {"", ""}, {"two", "two"}}, ReportedState{Known: true, Current: "two"}},
		"of another parent":    {"", [][2]string{{"one", ""}, {"", "one"}}, ReportedState{Known: true, Current: "one"}},
	} {
		v, now := NewReported("v1", c.restored), time.Now()
		state := v.Settle("v1", now)
		for _, versions := range c.responses {
			for i, version := range versions {
				v.note(parent{controller.ObjectID{Key: queue.Key{Name: []string{"a", "b"}[i]}}, "u"}, "v1", version, nil, now)
			}
			now = now.Add(rollout.SettleTime)
			state = v.Settle("v1", now)
		}
		if diff := cmp.Diff(c.want, state); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

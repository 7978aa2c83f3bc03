package router

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// A failure that is retried shows before it counts as one, also of a parent that was compared before.
func TestShadowObservesRetriedFailures(t *testing.T) {
	shop, err := object.Parse([]byte(`{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a"}}`))
	if err != nil {
		t.Fatal(err)
	}
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
		o, err := object.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return o
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
		c.Router = New(controller.New(loop{}, controller.Options{Log: slog.New(slog.DiscardHandler)}), Options{})
		c.parent, c.before = parent, response
		compared, err := c.compareWith(response, nil)
		if err != nil {
			t.Fatal(err)
		}
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

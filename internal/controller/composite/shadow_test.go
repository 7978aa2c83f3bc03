package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/related"
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
		of := shadowed{uid: shop.UID()}
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
	v, of, now := &Versions{}, shadowed{uid: "u-a"}, time.Now()
	v.SetShadow(true, 10)
	if s := &v.shadow; !s.tryAcquire(of, now) || s.tryAcquire(of, now) || len(s.due([]shadowed{of}, now.Add(time.Hour))) != 0 {
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

// selectingHook selects ConfigMaps as related objects, and counts how many of its calls overlap.
type selectingHook struct{ active, overlaps, calls atomic.Int32 }

func (h *selectingHook) Customize(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	if h.active.Add(1) > 1 {
		h.overlaps.Add(1)
	}
	return &hook.CustomizeResponse{Related: []hook.RelatedRule{{APIVersion: "v1", Resource: "configmaps"}}}, nil
}

func (h *selectingHook) Call(context.Context, *hook.Request) (*hook.Response, error) {
	h.calls.Add(1)
	h.active.Add(-1)
	return &hook.Response{}, nil
}

// Comparisons of a parent do not overlap, and leave no related objects behind, even if the parent is deleted or the
// shadow ends meanwhile.
func TestComparisonsLeaveNoRelatedObjects(t *testing.T) {
	s, after := newCluster(t, newShop), &selectingHook{}
	before := &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{} }}
	shops := shopsOf(t, s, Program{Version: "v2", Sync: after, Customize: after, Former: &Logic{Version: "v1", Sync: before}})
	shops.shadowRelated = related.New(related.Options{
		Store: shops.tools.Store, Scope: shops.program.Scope, Enqueue: func(queue.Key, *object.Object) {},
		Resolve: func(context.Context, string, string) (object.Resource, error) { return signs, nil },
	})
	key := queue.Key{Namespace: "town", Name: "a"}
	ended := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for on := true; ; on = !on {
			select {
			case <-ended:
				return
			default:
				shops.tools.Versions.SetShadow(on, 1000)
				shops.tools.Versions.drop(shops.ID(key))
			}
		}
	})
	for deadline := time.Now().Add(time.Minute); after.calls.Load() < 20 && time.Now().Before(deadline); {
		shops.run(queue.LogicCompared)
	}
	close(ended)
	others.Wait()
	shops.Drop(key)
	shops.shadowCalls.Wait()
	if after.calls.Load() == 0 || after.overlaps.Load() > 0 {
		t.Errorf("%d of %d comparisons overlap with another one", after.overlaps.Load(), after.calls.Load())
	}
	if reads := shops.shadowRelated.Reads(key); len(reads) > 0 {
		t.Errorf("it still reads %+v", reads)
	}
}

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
		c.Controller = &Controller{program: Program{}}
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
	v := &Versions{}
	of := shadowed{uid: "u-a"}
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

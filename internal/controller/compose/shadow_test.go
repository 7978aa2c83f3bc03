package compose

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
		of := shadowed{uid: shop.UID()}
		p := shadowedParent{uid: shop.UID()}
		for _, result := range c.results {
			p.add(&result)
		}
		s := shadow{parents: map[guardedParent]shadowedParent{of.guardedParent: p}}
		var o rollout.Observed
		s.observe(of, shop, &o)
		if diff := cmp.Diff(c.want, o.Shadow); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

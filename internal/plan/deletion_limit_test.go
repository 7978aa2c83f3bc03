package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// Fault G11: which deletions are too many.
func TestDeletionLimitExceeded(t *testing.T) {
	for _, c := range []struct {
		name  string
		guard DeletionLimit
		tally DeletionCount
		want  bool
	}{
		{"all tenants", *DefaultDeletionLimit(), DeletionCount{Pending: 12, Children: 12}, true},
		{"3 parents of 3, one of them", *DefaultDeletionLimit(), DeletionCount{Pending: 3, Children: 9}, false},
		{"3 parents of 3, two of them", *DefaultDeletionLimit(), DeletionCount{Pending: 6, Children: 9}, true},
		{"as many as are never held", *DefaultDeletionLimit(), DeletionCount{Pending: 5, Children: 5}, false},
		{"10 of 50", *DefaultDeletionLimit(), DeletionCount{Pending: 10, Children: 50}, false},
		{"a quarter", *DefaultDeletionLimit(), DeletionCount{Pending: 25, Children: 100}, false},
		{"more than a quarter", *DefaultDeletionLimit(), DeletionCount{Pending: 26, Children: 100}, true},
		{"with those made before", *DefaultDeletionLimit(), DeletionCount{Pending: 1, Recent: 25, Children: 100}, true},
		{"nothing wanted", *DefaultDeletionLimit(), DeletionCount{Recent: 100, Children: 100}, false},
		{"held, and as many created meanwhile", *DefaultDeletionLimit(), DeletionCount{Pending: 6, Children: 60, Holding: true}, true},
		{"held, and few are left", *DefaultDeletionLimit(), DeletionCount{Pending: 5, Children: 9, Holding: true}, false},
		{"each one", DeletionLimit{}, DeletionCount{Pending: 1, Children: 1000}, true},
		{"no share too large", DeletionLimit{MaxPercent: 100}, DeletionCount{Pending: 9, Children: 9}, false},
	} {
		if got := c.guard.Exceeded(c.tally); got != c.want {
			t.Errorf("%s: %+v of %+v: exceeded is %v, want %v", c.name, c.tally, c.guard, got, c.want)
		}
	}
}

// Fault G11: recreated children do not count, nor do finished ones.
func TestRemovals(t *testing.T) {
	deletion := func(text, reason string, desired uint64) Action {
		o := parse(t, text)
		return Action{Verb: Delete, Ref: o.Ref(), Before: o, Reason: reason, Desired: desired}
	}
	all := Plan{Stages: [][]Action{
		{
			deletion(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"running"},"status":{"phase":"Running"}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"done"},"status":{"phase":"Succeeded"}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"broken"},"status":{"phase":"Failed"}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"done"},"status":{"conditions":[{"type":"Complete","status":"True"}]}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"at-work"},"status":{"conditions":[{"type":"Suspended","status":"True"}]}}`, noLongerDesired, 0),
			deletion(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"recreated"}}`, "data.a differs", 7),
		},
		{deletion(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant"}}`, noLongerDesired, 0)},
		{{Verb: Create, Ref: parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`).Ref(), Reason: "missing"}},
	}}
	counted := lists.Map(all.Removals(), func(a Action) string { return a.Ref.String() })
	if diff := cmp.Diff([]string{"Pod running", "Job at-work", "Namespace tenant"}, counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	want := "1. delete Pod done: no longer desired\n1. delete Pod broken: no longer desired\n1. delete Job done: no longer desired\n" +
		"1. delete ConfigMap recreated: data.a differs\n2. create ConfigMap new: missing\n"
	if diff := cmp.Diff(want, all.Without(all.Removals()).String()); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
}

package queue_test

import (
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

func TestCauseString(t *testing.T) {
	tests := []struct {
		cause queue.Cause
		want  string
	}{
		{queue.Cause{}, "unspecified"},
		{queue.Cause{Kind: 200}, "unspecified"},
		{queue.Cause{Kind: queue.ParentChanged}, "parent changed"},
		{queue.Cause{Kind: queue.ChildChanged, Detail: "ConfigMap a/b"}, "child ConfigMap a/b changed"},
		{queue.Cause{Kind: queue.ChildChanged, Detail: "ConfigMap", Object: key("a", "b")}, "child ConfigMap a/b changed"},
		{queue.Cause{Kind: queue.RelatedChanged, Detail: "Node", Object: key("", "n1")}, "related Node n1 changed"},
		{queue.Cause{Kind: queue.Retrying, Detail: "3"}, "retry 3"},
		{queue.Cause{Kind: queue.ReconcileRequested, Detail: "requested by ann"}, "manual reconcile requested by ann"},
	}
	for _, test := range tests {
		if got := test.cause.String(); got != test.want {
			t.Errorf("%#v reads %q, want %q", test.cause, got, test.want)
		}
	}
}

func TestEveryKindAndPriorityHasItsOwnName(t *testing.T) {
	seen := map[string]bool{}
	for kind := queue.Unspecified; kind <= queue.Start; kind++ {
		if name := kind.String(); name == "" || seen[name] {
			t.Errorf("cause kind %d is named %q, as another or not at all", kind, name)
		} else {
			seen[name] = true
		}
	}
	for p := queue.Edits; p <= queue.Background; p++ {
		if name := p.String(); name == "" || seen[name] {
			t.Errorf("priority %d is named %q, as another or not at all", p, name)
		} else {
			seen[name] = true
		}
	}
}

func child(n int) queue.Cause {
	return queue.Cause{Kind: queue.ChildChanged, Detail: fmt.Sprintf("Pod p%d", n)}
}

func TestCausesAreDeduplicated(t *testing.T) {
	causes := queue.NewCauses(child(1), edit, child(1), edit, child(2))
	if got, want := causes.String(), "child Pod p1 changed, parent changed, child Pod p2 changed"; got != want {
		t.Errorf("causes %q, want %q", got, want)
	}
	if causes.Priority() != queue.Edits {
		t.Errorf("priority %v, want that of the parent's change", causes.Priority())
	}
}

func TestCausesAreBoundedAndKeepTheUrgent(t *testing.T) {
	added := []queue.Cause{resync}
	for n := range 20 {
		added = append(added, child(n))
	}
	causes := queue.NewCauses(append(added, edit)...)
	if len(causes.List()) != 8 || causes.More() != 14 {
		t.Errorf("%d listed and %d more, want 8 and 14", len(causes.List()), causes.More())
	}
	if causes.List()[7] != edit {
		t.Errorf("the last listed cause is %q, want the edit", causes.List()[7])
	}
	for _, kind := range []queue.CauseKind{queue.Resync, queue.ChildChanged, queue.ParentChanged} {
		if !causes.Has(kind) {
			t.Errorf("causes do not have %q", kind)
		}
	}
	if causes.Has(queue.Start) || causes.Has(200) {
		t.Error("causes have kinds that were not added")
	}
}

func TestOnly(t *testing.T) {
	retry := queue.Cause{Kind: queue.Retrying}
	if causes := queue.NewCauses(retry, retry); !causes.Only(queue.Retrying) || causes.Only(queue.Resync) {
		t.Error("two retries are only retries")
	}
	if causes := queue.NewCauses(retry, queue.Cause{Kind: queue.Resync}); causes.Only(queue.Retrying) || (queue.Causes{}).Only(queue.Retrying) {
		t.Error("a retry and a resync, or nothing, are not only retries")
	}
}

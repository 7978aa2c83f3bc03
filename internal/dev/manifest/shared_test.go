package manifest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
)

// An object without fields, such as a Namespace, may have been planned by a former run and never created.
func TestObjectsOfFormerRunsAreAppliedOnce(t *testing.T) {
	shop := Document{File: "shop.yaml", Object: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"},
	}}}
	set := NewSharedSet(&Shared{Inventory: &inventory.Inventory{
		Entries: []inventory.Entry{{APIVersion: "v1", Kind: "Namespace", Name: "shop", Source: "shop"}},
	}}, "shop", nil)
	for _, want := range []int{1, 0} {
		work := set.compare([]Document{shop})
		if got := len(work.stages[0]) + len(work.stages[1]); got != want || len(work.deleted) > 0 {
			t.Errorf("%d to apply, want %d; %d to delete", got, want, len(work.deleted))
		}
		set.applied[RefOf(shop.Object)] = shop
	}
}

package kinds

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Known are the kinds that the API server has served to this process or, by the status of a controller, to
// an earlier one. A kind that is gone is known by them.
type Known struct {
	mu  sync.Mutex
	all map[string]object.Resource
}

// Add adds a kind that is served, or was.
func (k *Known) Add(served object.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]object.Resource{}
	}
	for _, name := range []string{served.Plural, served.Kind} {
		k.all[served.APIVersion()+" "+name] = served
	}
}

// Find returns a kind by its plural or its kind.
func (k *Known) Find(apiVersion, name string) (object.Resource, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, known := k.all[apiVersion+" "+name]
	return found, known
}

// AddUsed adds the kinds in the status of a controller.
func (k *Known) AddUsed(kinds []setpoint.UsedKind) {
	for _, used := range kinds {
		if _, known := k.Find(used.APIVersion, used.Resource); known {
			continue
		}
		group := schema.FromAPIVersionAndKind(used.APIVersion, used.Kind)
		k.Add(object.Resource{
			Group: group.Group, Version: group.Version, Plural: used.Resource, Kind: used.Kind, Namespaced: used.Namespaced, Custom: true,
		})
	}
}

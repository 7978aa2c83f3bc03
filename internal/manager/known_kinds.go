package manager

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// knownKinds are the kinds that the API server has served to this process or, by the status of a controller, to
// an earlier one. A kind that is gone is known by them.
type knownKinds struct {
	mu  sync.Mutex
	all map[string]object.Resource
}

// add adds a kind that is served, or was.
func (k *knownKinds) add(served object.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]object.Resource{}
	}
	for _, name := range []string{served.Plural, served.Kind} {
		k.all[served.APIVersion()+" "+name] = served
	}
}

// find returns a kind by its plural or its kind.
func (k *knownKinds) find(apiVersion, name string) (object.Resource, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, known := k.all[apiVersion+" "+name]
	return found, known
}

// addStored adds the kinds in the status of a controller object.
func (k *knownKinds) addStored(declared *object.Object) {
	for _, used := range storedStatus(declared).Kinds {
		if _, known := k.find(used.APIVersion, used.Resource); known {
			continue
		}
		group := schema.FromAPIVersionAndKind(used.APIVersion, used.Kind)
		k.add(object.Resource{
			Group: group.Group, Version: group.Version, Plural: used.Resource, Kind: used.Kind, Namespaced: used.Namespaced, Custom: true,
		})
	}
}

// maxUsedKinds limits the kinds in a status. A customize hook may select any number of them over time.
const maxUsedKinds = 100

// usedKinds returns the kinds in the status of a controller: those before, and those that it uses now.
func usedKinds(before []setpoint.UsedKind, running *runningController) []setpoint.UsedKind {
	if running == nil {
		return before
	}
	all := slices.Clone(before)
	for _, r := range append(allKinds(running.Compiled), running.relatedResources()...) {
		used := setpoint.UsedKind{APIVersion: r.APIVersion(), Resource: r.Plural, Kind: r.Kind, Namespaced: r.Namespaced}
		if r.Custom && !r.Unserved && len(all) < maxUsedKinds && !slices.Contains(all, used) {
			all = append(all, used)
		}
	}
	slices.SortFunc(all, func(a, b setpoint.UsedKind) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Resource, b.Resource))
	})
	return all
}

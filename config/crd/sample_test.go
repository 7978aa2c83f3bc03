package crd_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Nothing of an object is refused, lost or changed by going through its Go type.
func TestSamplesRoundTrip(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, metacontroller.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	for name := range definitions(t) {
		for _, sample := range samples(t, name) {
			want := decode(t, sample)
			object := must.Get(scheme.New(kinds.FromAPIVersionAndKind(want["apiVersion"].(string), want["kind"].(string)))).In(t)
			if err := yaml.UnmarshalStrict([]byte(sample), object); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, encode(t, object.DeepCopyObject())); diff != "" {
				t.Errorf("%s (-sample +object):\n%s", name, diff)
			}
		}
	}
}

// The samples are only as good as they are complete.
func TestSamplesUseEveryField(t *testing.T) {
	for name := range definitions(t) {
		used := map[string]bool{}
		for _, sample := range samples(t, name) {
			collect(used, "", decode(t, sample))
		}
		for _, f := range schemaOf(t, name).fields("") {
			if !used[f.path] {
				t.Errorf("%s: no sample has %s", name, f.path)
			}
		}
	}
}

// collect notes the path of every field of a value, in the notation of field.path.
func collect(used map[string]bool, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			below := name
			if path != "" {
				below = path + "." + name
			}
			used[below] = true
			collect(used, below, value[name])
		}
	case []any:
		for _, item := range value {
			collect(used, path+"[]", item)
		}
	}
}

func decode(t *testing.T, manifest string) map[string]any {
	t.Helper()
	var tree map[string]any
	must.Succeed(t, yaml.Unmarshal([]byte(manifest), &tree))
	return tree
}

func encode(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	data := must.Get(json.Marshal(object)).In(t)
	return decode(t, string(data))
}

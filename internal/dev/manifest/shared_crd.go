package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/diff"
)

// checkSameCRD returns an error with the differences of a stored CRD from a manifest. A user who may only
// read CRDs can use those of an administrator, so the API server's defaults are set here.
func checkSameCRD(stored, wanted *unstructured.Unstructured) error {
	before, err := specOf(stored)
	if err != nil {
		return err
	}
	after, err := specOf(withCRDDefaults(wanted))
	if err != nil {
		return err
	}
	changes, err := diff.Objects(before, after)
	if err != nil || len(changes) == 0 {
		return err
	}
	shown, rest := diff.Significant(changes, maxDifferences)
	lines := make([]string, 0, len(shown)+1)
	for _, c := range shown {
		lines = append(lines, fmt.Sprintf("%s: in the cluster %s, in the manifest %s", c.Path, valueOf(c.From), valueOf(c.To)))
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", rest))
	}
	return fmt.Errorf("exists with another spec, was not created by setpoint dev, and stays as it is; change the manifest, or upgrade "+
		"the CRD:\n%s", strings.Join(lines, "\n"))
}

func valueOf(value json.RawMessage) string {
	return cmp.Or(diff.Shorten(diff.Value(value), maxValue), "nothing")
}

// Limits of a message.
const (
	maxDifferences = 10
	maxValue       = 80
)

// specOf returns an object with nothing but the spec, as JSON.
func specOf(o *unstructured.Unstructured) ([]byte, error) {
	return (&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": map[string]any{"name": o.GetName()}, "spec": o.Object["spec"],
	}}).MarshalJSON()
}

// withCRDDefaults returns a CRD with the defaults of the API server.
func withCRDDefaults(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	for _, d := range []struct {
		value string
		path  []string
	}{
		{strings.ToLower(kind), []string{"spec", "names", "singular"}},
		{kind + "List", []string{"spec", "names", "listKind"}},
		{"None", []string{"spec", "conversion", "strategy"}},
	} {
		if now, _, _ := unstructured.NestedString(o.Object, d.path...); now == "" {
			_ = unstructured.SetNestedField(o.Object, d.value, d.path...) // A malformed one differs anyway.
		}
	}
	return o
}

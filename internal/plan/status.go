package plan

import (
	"encoding/json"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Status is the status a reply gives its parent. The parent with it laid over
// is what the hook is asked about next; it is the observed parent itself when
// nothing changes.
//
// A custom resource's status is replaced whole, and observedGeneration set in
// it. The status of a built-in kind has other writers: it is left alone when
// the reply has none, and merged member by member otherwise; a null removes.
func Status(parent *object.Object, resource object.Resource, reply json.RawMessage) (*object.Object, error) {
	if !resource.Status || !resource.Custom && reply == nil {
		return parent, nil
	}
	var want map[string]any
	if err := utiljson.Unmarshal(reply, &want); reply != nil && err != nil {
		return nil, err
	}
	// A status that is missing, or no object, has nothing to keep or to merge with.
	have, _ := tree(parent.Field("status"))
	want = settleStatus(have, want, parent.Generation(), resource.Custom)
	if difference(have, want) == "" {
		return parent, nil
	}
	text, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	return parent.With(text, "status")
}

// settleStatus completes a reply's status.
func settleStatus(have, want map[string]any, generation int64, custom bool) map[string]any {
	if !custom {
		want = merger{keys: statusKeys}.objects(have, nil, want)
	}
	if want == nil {
		want = map[string]any{}
	}
	withoutNulls(want)
	if custom {
		want["observedGeneration"] = generation
	}
	return want
}

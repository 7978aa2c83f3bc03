package setpointtest

import (
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func toResult[T any](stored json.RawMessage, resp *hook.HandlerResponse) (Result[T], error) {
	r := Result[T]{
		Object: new(T), Deleted: resp.Delete, Events: resp.Events, Conditions: resp.Conditions,
		Message: resp.Message, Requeue: resp.RetryAfter,
	}
	if resp.Progress != nil {
		var progress struct{ Steps []string }
		if err := json.Unmarshal(resp.Progress, &progress); err != nil {
			return r, fmt.Errorf("read the progress: %w", err)
		}
		r.Steps = progress.Steps
	}
	patched := map[string]any{}
	for _, one := range []struct {
		from json.RawMessage
		into *map[string]any
	}{{resp.Patch, &r.Patch}, {resp.Status, &r.Status}, {stored, &patched}} {
		if one.from == nil {
			continue
		}
		if err := utiljson.Unmarshal(one.from, one.into); err != nil {
			return r, fmt.Errorf("read what the handler wants written: %w", err)
		}
	}
	patched = object.MergePatch(patched, r.Patch)
	if r.Status != nil {
		patched = object.MergePatch(patched, map[string]any{"status": r.Status})
	}
	for _, one := range resp.Apply {
		a := Applied{Unowned: one.Unowned}
		if err := utiljson.Unmarshal(one.Object, &a.Object); err != nil {
			return r, fmt.Errorf("read an applied object: %w", err)
		}
		r.Applied = append(r.Applied, a)
	}
	data, err := json.Marshal(patched)
	if err == nil {
		err = json.Unmarshal(data, r.Object)
	}
	return r, err
}

// withStatus replaces the status of an object; nil removes it.
func withStatus(stored, status json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(stored, &members); err != nil {
		return nil, err
	}
	delete(members, "status")
	if status != nil {
		members["status"] = status
	}
	return json.Marshal(members)
}

package setpointtest

import (
	"encoding/json"
	"fmt"
	"maps"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/hook"
)

func toResult[T any](object json.RawMessage, resp *hook.HandlerResponse) (Result[T], error) {
	r := Result[T]{
		Object: new(T), Deleted: resp.Delete, Events: resp.Events, Conditions: resp.Conditions,
		Message: resp.Message, Requeue: resp.RetryAfter,
	}
	patched := map[string]any{}
	for _, one := range []struct {
		from json.RawMessage
		into *map[string]any
	}{{resp.Patch, &r.Patch}, {resp.Status, &r.Status}, {object, &patched}} {
		if one.from == nil {
			continue
		}
		if err := utiljson.Unmarshal(one.from, one.into); err != nil {
			return r, fmt.Errorf("read what the handler wants written: %w", err)
		}
	}
	patched = applyMergePatch(patched, r.Patch)
	if r.Status != nil {
		patched = applyMergePatch(patched, map[string]any{"status": r.Status})
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

// applyMergePatch applies a merge patch (RFC 7396).
func applyMergePatch(object, patch map[string]any) map[string]any {
	result := maps.Clone(object)
	if result == nil {
		result = map[string]any{}
	}
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		was, _ := result[name].(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isObject:
			result[name] = applyMergePatch(was, inner)
		default:
			result[name] = value
		}
	}
	return result
}

// withStatus replaces the status of an object; nil removes it.
func withStatus(object, status json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	delete(members, "status")
	if status != nil {
		members["status"] = status
	}
	return json.Marshal(members)
}

package setpointtest

import (
	"encoding/json"
	"fmt"
	"maps"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/hook"
)

// read is an answer as a result.
func read[T any](object json.RawMessage, answer *hook.Answer) (Result[T], error) {
	r := Result[T]{
		Object: new(T), Deleted: answer.Delete, Events: answer.Events, Conditions: answer.Conditions,
		Message: answer.Message, Requeue: answer.RetryAfter,
	}
	patched := map[string]any{}
	for _, one := range []struct {
		from json.RawMessage
		into *map[string]any
	}{{answer.Patch, &r.Patch}, {answer.Status, &r.Status}, {object, &patched}} {
		if one.from == nil {
			continue
		}
		if err := utiljson.Unmarshal(one.from, one.into); err != nil {
			return r, fmt.Errorf("read what the handler wants written: %w", err)
		}
	}
	patched = merged(patched, r.Patch)
	if r.Status != nil {
		patched = merged(patched, map[string]any{"status": r.Status})
	}
	for _, one := range answer.Apply {
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

// merged is an object with a merge patch applied (RFC 7396).
func merged(object, patch map[string]any) map[string]any {
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
			result[name] = merged(was, inner)
		default:
			result[name] = value
		}
	}
	return result
}

// withStatus is an object with another status; none if it is nil.
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

package setpointtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

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

// changes are the fields in which two objects differ, sorted by path.
func changes(old, now json.RawMessage) ([]hook.FieldChange, error) {
	var was, is any
	if err := utiljson.Unmarshal(old, &was); err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(now, &is); err != nil {
		return nil, err
	}
	return compare("", was, is)
}

func compare(path string, was, is any) ([]hook.FieldChange, error) {
	if reflect.DeepEqual(was, is) {
		return nil, nil
	}
	wasObject, ok := was.(map[string]any)
	isObject, too := is.(map[string]any)
	if !ok || !too {
		return change(path, was, is)
	}
	names := maps.Clone(wasObject)
	maps.Copy(names, isObject)
	var all []hook.FieldChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		below := name
		if path != "" {
			below = path + "." + name
		}
		found, err := compare(below, wasObject[name], isObject[name])
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func change(path string, was, is any) ([]hook.FieldChange, error) {
	c := hook.FieldChange{Path: path}
	for _, one := range []struct {
		value any
		into  *json.RawMessage
	}{{was, &c.Old}, {is, &c.New}} {
		if one.value == nil {
			continue
		}
		data, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		*one.into = data
	}
	return []hook.FieldChange{c}, nil
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

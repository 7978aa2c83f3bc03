package setpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// jsonObject is a JSON object. Its numbers are json.Numbers: none is rounded.
type jsonObject map[string]any

var errNullObject = errors.New("it is null")

// readJSONObject reads a JSON object.
func readJSONObject(data []byte) (jsonObject, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var t jsonObject
	err := decoder.Decode(&t)
	if err == nil && t == nil {
		err = errNullObject
	}
	return t, err
}

// child is the object at a name, made if there is none.
func (t jsonObject) child(name string) jsonObject {
	switch inner := t[name].(type) {
	case map[string]any:
		return inner
	case jsonObject:
		return inner
	}
	inner := jsonObject{}
	t[name] = map[string]any(inner)
	return inner
}

// mergePatches are the merge patches that make one object into another: of its status,
// and of the rest. Both are JSON as the same type writes it, so that what the type
// does not know of an object stays as it is.
func mergePatches(before, after []byte) (patch, status json.RawMessage, err error) {
	if bytes.Equal(before, after) {
		return nil, nil, nil
	}
	was, err := readMembers(before)
	if err != nil {
		return nil, nil, fmt.Errorf("the object: %w", err)
	}
	is, err := readMembers(after)
	if err != nil {
		return nil, nil, fmt.Errorf("the object: %w", err)
	}
	delta := mergePatchOf(was, is)
	if err := checkPatchable(delta); err != nil {
		return nil, nil, err
	}
	if changed, ok := delta["status"]; ok {
		delete(delta, "status")
		if status, err = json.Marshal(deletionOf(was.text("status"), changed)); err != nil {
			return nil, nil, err
		}
	}
	if metadata, ok := delta["metadata"].(jsonObject); ok {
		former, _ := readMembers(was.text("metadata")) // It is an object in both.
		for name, changed := range metadata {
			metadata[name] = deletionOf(former.text(name), changed)
		}
	}
	if len(delta) > 0 {
		patch, err = json.Marshal(delta)
	}
	return patch, status, err
}

// deletionOf is a patch of a member. One that is gone as a whole is emptied by its
// members: others may have added some meanwhile.
func deletionOf(was []byte, changed any) any {
	former, err := readMembers(was)
	if changed != nil || err != nil {
		return changed
	}
	return mergePatchOf(former, nil)
}

// checkPatchable refuses to change what an object is, and what others keep in its
// metadata.
func checkPatchable(delta jsonObject) error {
	refused := delta.present("apiVersion", "kind")
	if metadata, ok := delta["metadata"].(jsonObject); ok {
		for _, name := range slices.Sorted(maps.Keys(metadata)) {
			if name != "labels" && name != "annotations" {
				refused = append(refused, "metadata."+name)
			}
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("the handler changed %s of the object: of what it is and of its metadata, only labels and annotations can be changed", strings.Join(refused, ", "))
	}
	return nil
}

// present lists those of the names that a tree has.
func (t jsonObject) present(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { _, has := t[name]; return !has })
}

// mergePatchOf is the merge patch that makes one object into the other, with those
// members alone that differ. What is new in it is the text that it was.
func mergePatchOf(was, is members) jsonObject {
	delta := jsonObject{}
	for _, old := range was {
		now := is.named(old.name)
		switch {
		case now == nil || isNull(now) && !isNull(old.value):
			delta[textOf(old.name)] = nil
		case bytes.Equal(old.value, now):
		case old.value[0] == '{' && now[0] == '{':
			former, _ := readMembers(old.value) // Both are objects.
			present, _ := readMembers(now)
			if inner := mergePatchOf(former, present); len(inner) > 0 {
				delta[textOf(old.name)] = inner
			}
		default:
			delta[textOf(old.name)] = json.RawMessage(now)
		}
	}
	for _, now := range is {
		if was.named(now.name) == nil {
			delta[textOf(now.name)] = json.RawMessage(now.value)
		}
	}
	return delta
}

// withPatch is a tree with a merge patch applied.
func (t jsonObject) withPatch(patch jsonObject) jsonObject {
	result := maps.Clone(t)
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isObject:
			result[name] = map[string]any(maps.Clone(result.child(name)).withPatch(inner))
		default:
			result[name] = value
		}
	}
	return result
}

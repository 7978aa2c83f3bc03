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

var errNullObject = errors.New("must not be null")

// readJSONObject decodes a JSON object. Its numbers are json.Numbers, so that they are not rounded.
func readJSONObject(data []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var t map[string]any
	err := decoder.Decode(&t)
	if err == nil && t == nil {
		err = errNullObject
	}
	return t, err
}

// mergePatches returns the merge patches from one object to another: of its status, and
// of the rest. The same type encodes both, so that fields unknown to the type do not
// change.
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
	if metadata, ok := delta["metadata"].(map[string]any); ok {
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

// deletionOf returns the patch of a member. A deleted object is patched by its members,
// because other clients may have added some.
func deletionOf(was []byte, changed any) any {
	former, err := readMembers(was)
	if changed != nil || err != nil {
		return changed
	}
	return mergePatchOf(former, nil)
}

// checkPatchable refuses patches of the identity and of metadata other than labels and
// annotations.
func checkPatchable(delta map[string]any) error {
	var refused []string
	for _, name := range []string{"apiVersion", "kind"} {
		if _, has := delta[name]; has {
			refused = append(refused, name)
		}
	}
	if metadata, ok := delta["metadata"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(metadata)) {
			if name != "labels" && name != "annotations" {
				refused = append(refused, "metadata."+name)
			}
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("the handler changed %s of the object: only spec, status, labels and annotations can be changed",
			strings.Join(refused, ", "))
	}
	return nil
}

// mergePatchOf returns the merge patch from one object to another, with the changed
// members only. New values keep their text.
func mergePatchOf(was, is members) map[string]any {
	delta := map[string]any{}
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

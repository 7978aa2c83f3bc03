// Package mergepatch makes merge patches of two encodings of one Go value, in which most members have the same text.
package mergepatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
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

// Between returns the merge patches from one object to another: of its status, and
// of the rest. The same type encodes both, so that fields unknown to the type do not
// change.
func Between(before, after []byte) (patch, status json.RawMessage, err error) {
	if bytes.Equal(before, after) {
		return nil, nil, nil
	}
	was, err := Read(before)
	if err != nil {
		return nil, nil, fmt.Errorf("the object: %w", err)
	}
	is, err := Read(after)
	if err != nil {
		return nil, nil, fmt.Errorf("the object: %w", err)
	}
	delta := mergePatchOf(was, is)
	if err := checkPatchable(delta); err != nil {
		return nil, nil, err
	}
	if changed, ok := delta["status"]; ok {
		delete(delta, "status")
		if status, err = json.Marshal(deletionOf(was.Text("status"), changed)); err != nil {
			return nil, nil, err
		}
	}
	if metadata, ok := delta["metadata"].(map[string]any); ok {
		former, _ := Read(was.Text("metadata")) // It is an object in both.
		for name, changed := range metadata {
			metadata[name] = deletionOf(former.Text(name), changed)
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
	former, err := Read(was)
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
func mergePatchOf(was, is Members) map[string]any {
	delta := map[string]any{}
	for _, old := range was {
		now := is.named(old.Name)
		switch {
		case now == nil || IsNull(now) && !IsNull(old.Value):
			delta[Unquoted(old.Name)] = nil
		case bytes.Equal(old.Value, now):
		case old.Value[0] == '{' && now[0] == '{':
			former, _ := Read(old.Value) // Both are objects.
			present, _ := Read(now)
			if inner := mergePatchOf(former, present); len(inner) > 0 {
				delta[Unquoted(old.Name)] = inner
			}
		default:
			delta[Unquoted(old.Name)] = json.RawMessage(now)
		}
	}
	for _, now := range is {
		if was.named(now.Name) == nil {
			delta[Unquoted(now.Name)] = json.RawMessage(now.Value)
		}
	}
	return delta
}

// DropNullTimestamps removes metadata.creationTimestamp: null from templates. Go types of
// other releases write it although it is unset.
func DropNullTimestamps(data []byte) ([]byte, error) {
	if !bytes.Contains(data, []byte(`"creationTimestamp":null`)) {
		return data, nil
	}
	t, err := readJSONObject(data)
	if err != nil {
		return nil, err
	}
	dropNullTimestampsIn(t)
	return json.Marshal(t)
}

func dropNullTimestampsIn(value any) {
	switch value := value.(type) {
	case map[string]any:
		if at, there := value["creationTimestamp"]; there && at == nil {
			delete(value, "creationTimestamp")
		}
		for _, inner := range value {
			dropNullTimestampsIn(inner)
		}
	case []any:
		for _, inner := range value {
			dropNullTimestampsIn(inner)
		}
	}
}

// WholeStatus returns the status of a stored object with the changes of a merge patch; nil if there is none.
func WholeStatus(stored, patch json.RawMessage) (json.RawMessage, error) {
	var parent struct{ Status json.RawMessage }
	if err := json.Unmarshal(stored, &parent); err != nil {
		return nil, err
	}
	former := parent.Status
	if IsNull(former) {
		former = nil
	}
	if patch == nil {
		return former, nil
	}
	was := map[string]any{}
	if former != nil {
		var err error
		if was, err = readJSONObject(former); err != nil {
			return nil, err
		}
	}
	changes, err := readJSONObject(patch)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object.MergePatch(was, changes))
}

// Package mergepatch makes merge patches of two encodings of one Go value.
package mergepatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Between returns the merge patches from one object to another: of its status, and
// of the rest. The same type encodes both, so that fields unknown to the type do not
// change.
func Between(before, after []byte) (patch, status json.RawMessage, err error) {
	if bytes.Equal(before, after) {
		return nil, nil, nil
	}
	was, err := object.DecodeExact(before)
	if err != nil {
		return nil, nil, fmt.Errorf("the object: %w", err)
	}
	is, err := object.DecodeExact(after)
	if err != nil {
		return nil, nil, fmt.Errorf("the object: %w", err)
	}
	delta := object.PatchBetween(was, is)
	if err := checkPatchable(delta); err != nil {
		return nil, nil, err
	}
	if changed, ok := delta["status"]; ok {
		delete(delta, "status")
		if status, err = json.Marshal(deletionOf(was["status"], changed)); err != nil {
			return nil, nil, err
		}
	}
	if metadata, ok := delta["metadata"].(map[string]any); ok {
		former, _ := was["metadata"].(map[string]any)
		for name, changed := range metadata {
			metadata[name] = deletionOf(former[name], changed)
		}
	}
	if len(delta) > 0 {
		patch, err = json.Marshal(delta)
	}
	return patch, status, err
}

// deletionOf returns the patch of a member. A deleted object is patched by its members,
// because other clients may have added some.
func deletionOf(was, changed any) any {
	former, is := was.(map[string]any)
	if changed != nil || !is {
		return changed
	}
	return object.PatchBetween(former, nil)
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

// WholeStatus returns the status of a stored object with the changes of a merge patch; nil if there is none.
func WholeStatus(stored, patch json.RawMessage) (json.RawMessage, error) {
	parent, err := object.DecodeExact(stored)
	if err != nil {
		return nil, err
	}
	status := parent["status"]
	if patch != nil {
		changes, err := object.DecodeExact(patch)
		if err != nil {
			return nil, err
		}
		former, _ := status.(map[string]any)
		status = object.MergePatch(former, changes)
	}
	if status == nil {
		return nil, nil
	}
	return json.Marshal(status)
}

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

// tree is a JSON object. Its numbers are json.Numbers: none is rounded.
type tree map[string]any

var errNull = errors.New("it is null")

// readTree reads a JSON object.
func readTree(data []byte) (tree, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var t tree
	err := decoder.Decode(&t)
	if err == nil && t == nil {
		err = errNull
	}
	return t, err
}

// member is the object at a name, made if there is none.
func (t tree) member(name string) tree {
	switch inner := t[name].(type) {
	case map[string]any:
		return inner
	case tree:
		return inner
	}
	inner := tree{}
	t[name] = map[string]any(inner)
	return inner
}

// patches are the merge patches that make one object into another: of its status,
// and of the rest. Both are JSON as the same type writes it, so that what the type
// does not know of an object stays as it is.
func patches(before, after []byte) (patch, status json.RawMessage, err error) {
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
	delta := difference(was, is)
	if err := patchable(delta); err != nil {
		return nil, nil, err
	}
	if changed, ok := delta["status"]; ok {
		delete(delta, "status")
		if status, err = json.Marshal(emptied(was.text("status"), changed)); err != nil {
			return nil, nil, err
		}
	}
	if metadata, ok := delta["metadata"].(tree); ok {
		former, _ := readMembers(was.text("metadata")) // It is an object in both.
		for name, changed := range metadata {
			metadata[name] = emptied(former.text(name), changed)
		}
	}
	if len(delta) > 0 {
		patch, err = json.Marshal(delta)
	}
	return patch, status, err
}

// emptied is a patch of a member. One that is gone as a whole is emptied by its
// members: others may have added some meanwhile.
func emptied(was []byte, changed any) any {
	former, err := readMembers(was)
	if changed != nil || err != nil {
		return changed
	}
	return difference(former, nil)
}

// patchable refuses to change what an object is, and what others keep in its
// metadata.
func patchable(delta tree) error {
	refused := delta.in("apiVersion", "kind")
	if metadata, ok := delta["metadata"].(tree); ok {
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

// in lists those of the names that a tree has.
func (t tree) in(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { _, has := t[name]; return !has })
}

// difference is the merge patch that makes one object into the other, with those
// members alone that differ. What is new in it is the text that it was.
func difference(was, is members) tree {
	delta := tree{}
	for _, old := range was {
		now := is.named(old.name)
		switch {
		case now == nil || isNull(now) && !isNull(old.value):
			delta[textOf(old.name)] = nil
		case bytes.Equal(old.value, now):
		case old.value[0] == '{' && now[0] == '{':
			former, _ := readMembers(old.value) // Both are objects.
			present, _ := readMembers(now)
			if inner := difference(former, present); len(inner) > 0 {
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

// merged is a tree with a merge patch applied.
func (t tree) merged(patch tree) tree {
	result := maps.Clone(t)
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isObject:
			result[name] = map[string]any(maps.Clone(result.member(name)).merged(inner))
		default:
			result[name] = value
		}
	}
	return result
}

package setpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
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

// treeOf is a value as a JSON object.
func treeOf(value any) (tree, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return readTree(data)
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

// text is the string at a name, or "".
func (t tree) text(name string) string {
	text, _ := t[name].(string)
	return text
}

// patches are the merge patches that make one object into another: of its status,
// and of the rest. Both are JSON as the same type writes it, so that what the type
// does not know of an object stays as it is.
func patches(before, after []byte) (patch, status json.RawMessage, err error) {
	if bytes.Equal(before, after) {
		return nil, nil, nil
	}
	was, is, err := unlike(before, after)
	if err != nil {
		return nil, nil, fmt.Errorf("the object: %w", err)
	}
	delta := difference(was, is)
	if err := patchable(delta); err != nil {
		return nil, nil, err
	}
	if changed, ok := delta["status"]; ok {
		delete(delta, "status")
		if status, err = json.Marshal(emptied(was.member("status"), changed)); err != nil {
			return nil, nil, err
		}
	}
	if metadata, ok := delta["metadata"].(tree); ok {
		for name, changed := range metadata {
			metadata[name] = emptied(was.member("metadata").member(name), changed)
		}
	}
	if len(delta) > 0 {
		patch, err = json.Marshal(delta)
	}
	return patch, status, err
}

// unlike are two objects without those members that are the same text in both,
// which are most and need not be read.
func unlike(before, after []byte) (was, is tree, err error) {
	old, err := readMembers(before)
	if err != nil {
		return nil, nil, err
	}
	now, err := readMembers(after)
	if err != nil {
		return nil, nil, err
	}
	maps.DeleteFunc(old, func(name string, text json.RawMessage) bool {
		same := bytes.Equal(text, now[name])
		if same {
			delete(now, name)
		}
		return same
	})
	if was, err = old.read(); err != nil {
		return nil, nil, err
	}
	is, err = now.read()
	return was, is, err
}

// unread is a JSON object of which only the names of the members have been read.
type unread map[string]json.RawMessage

func readMembers(data []byte) (unread, error) {
	var members unread
	err := json.Unmarshal(data, &members)
	if err == nil && members == nil {
		err = errNull
	}
	return members, err
}

// read reads the members.
func (u unread) read() (tree, error) {
	t := make(tree, len(u))
	for name, text := range u {
		var value any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		t[name] = value
	}
	return t, nil
}

// emptied is a patch of a member. One that is gone as a whole is emptied by its
// members: others may have added some meanwhile.
func emptied(was tree, changed any) any {
	if changed == nil {
		return difference(was, nil)
	}
	return changed
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
// members alone that differ.
func difference(was, is map[string]any) tree {
	delta := tree{}
	for name, old := range was {
		now, stays := is[name]
		if !stays {
			delta[name] = nil
			continue
		}
		oldObject, isObject := old.(map[string]any)
		nowObject, staysObject := now.(map[string]any)
		switch {
		case reflect.DeepEqual(old, now):
		case isObject && staysObject:
			delta[name] = difference(oldObject, nowObject)
		default:
			delta[name] = now
		}
	}
	for name, now := range is {
		if _, known := was[name]; !known {
			delta[name] = now
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

package mergepatch

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// FuzzPatches: what a patch makes of the one object is the other.
func FuzzPatches(f *testing.F) {
	f.Add(`{"spec":{"a":1,"b":{"c":"<x>"}}}`, `{"spec":{"a":[{}],"b":{}},"data":{"\"":"}"}}`)
	f.Add(`{"a":{"b":1}}`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		was, is := written(before), written(after)
		if was == nil || is == nil {
			return
		}
		patch, status, err := Between(was, is)
		if err != nil || status != nil {
			return
		}
		got := must.Get(object.DecodeExact(was)).In(t)
		if patch != nil {
			changes := must.Get(object.DecodeExact(patch)).In(t)
			got = object.MergePatch(got, changes)
		}
		text, err := json.Marshal(got)
		if err != nil || !bytes.Equal(text, is) {
			t.Errorf("%s and %s make %s, not %s", was, patch, text, is)
		}
	})
}

// written is an object as a Go program writes it, without null; nil for what is none.
func written(text string) []byte {
	t, err := object.DecodeExact([]byte(text))
	if err != nil {
		return nil
	}
	data, err := json.Marshal(dropNulls(t))
	if err != nil {
		return nil
	}
	return data
}

func dropNulls(value any) any {
	members, is := value.(map[string]any)
	for name, inner := range members {
		if inner == nil {
			delete(members, name)
			continue
		}
		members[name] = dropNulls(inner)
	}
	if is {
		return members
	}
	return value
}

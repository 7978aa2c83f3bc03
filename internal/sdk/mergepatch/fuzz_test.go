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

func TestPatches(t *testing.T) {
	for name, c := range map[string]struct{ before, after, patch, status string }{
		"nothing":              {`{"spec":{"a":1}}`, `{"spec":{"a":1}}`, ``, ``},
		"a field":              {`{"kind":"X","spec":{"a":1,"b":[1]}}`, `{"kind":"X","spec":{"a":2,"b":[1]}}`, `{"spec":{"a":2}}`, ``},
		"a long number":        {`{"spec":{"a":12345678901234567}}`, `{"spec":{"a":12345678901234568}}`, `{"spec":{"a":12345678901234568}}`, ``},
		"the status":           {`{"spec":{"a":1},"status":{"a":1,"b":2}}`, `{"spec":{"a":1},"status":{"a":1,"c":3}}`, ``, `{"b":null,"c":3}`},
		"the first status":     {`{"spec":{}}`, `{"spec":{},"status":{"a":1}}`, ``, `{"a":1}`},
		"no status any more":   {`{"status":{"a":1}}`, `{}`, ``, `{"a":null}`},
		"both":                 {`{"spec":{"a":1},"status":{"a":1}}`, `{"spec":{"a":2},"status":{"a":2}}`, `{"spec":{"a":2}}`, `{"a":2}`},
		"the same, elsewhere":  {`{"spec":{"a":{"x":1}}}`, `{"spec":{"b":{"x":1}}}`, `{"spec":{"a":null,"b":{"x":1}}}`, ``},
		"no labels any more":   {`{"metadata":{"name":"x","labels":{"l":"1"}}}`, `{"metadata":{"name":"x"}}`, `{"metadata":{"labels":{"l":null}}}`, ``},
		"a member of the root": {`{"data":{"a":"1"}}`, `{}`, `{"data":null}`, ``},
	} {
		patch, status, err := Between([]byte(c.before), []byte(c.after))
		if err != nil || string(patch) != c.patch || string(status) != c.status {
			t.Errorf("%s: got %s and %s, %v", name, patch, status, err)
		}
	}
	for name, c := range map[string]struct{ before, after string }{
		"another name": {`{"metadata":{"name":"x"}}`, `{"metadata":{"name":"y"}}`},
		"another kind": {`{"kind":"X"}`, `{}`},
		"no object":    {`{"kind":"X"}`, `null`},
	} {
		if patch, status, err := Between([]byte(c.before), []byte(c.after)); err == nil {
			t.Errorf("%s: got %s and %s", name, patch, status)
		}
	}
}

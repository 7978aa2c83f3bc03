package compile

import (
	"bytes"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// snapshot returns a controller as hooks get it: with the given status, nil for none, and without
// the code of inline hooks, which would travel with each request.
func snapshot(o *object.Object, status []byte) json.RawMessage {
	bare, err := o.Edited(append(withoutCode(o), object.Edit{Path: []string{"status"}, Value: status})...)
	if err != nil {
		return o.JSON() // The object was parsed before, so editing it cannot fail.
	}
	return bare.JSON()
}

// withoutCode returns the edits that remove the code of inline hooks.
func withoutCode(o *object.Object) []object.Edit {
	var edits []object.Edit
	replace := func(bare json.RawMessage, path ...string) {
		if bare != nil {
			edits = append(edits, object.Edit{Value: bare, Path: path})
		}
	}
	for _, name := range []string{"sync", "finalize", "customize"} {
		replace(withoutSource(o.Field("spec", "hooks", name)), "spec", "hooks", name)
	}
	for _, list := range []string{"handlers", "webhooks"} {
		replace(listWithoutSources(o.Field("spec", list)), "spec", list)
	}
	if edits != nil {
		// kubectl apply keeps all of the manifest there.
		edits = append(edits, object.Edit{Path: []string{"metadata", "annotations", corev1.LastAppliedConfigAnnotation}})
	}
	return edits
}

// listWithoutSources returns a list of hooks without their code; nil if they have none.
func listWithoutSources(list json.RawMessage) json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil {
		return nil
	}
	changed := false
	for i, item := range items {
		if bare := withoutSource(item); bare != nil {
			items[i], changed = bare, true
		}
	}
	if !changed {
		return nil
	}
	return encode(items)
}

// withoutSource returns a hook without its code; nil if it has none.
func withoutSource(hook json.RawMessage) json.RawMessage {
	var fields, inline map[string]json.RawMessage
	if !bytes.Contains(hook, []byte(`"inline"`)) || json.Unmarshal(hook, &fields) != nil ||
		json.Unmarshal(fields["inline"], &inline) != nil {
		return nil
	}
	if inline["source"] == nil {
		return nil
	}
	delete(inline, "source")
	delete(inline, "modules")
	fields["inline"] = encode(inline)
	return encode(fields)
}

// encode returns a value of texts and JSON values, whose encoding cannot fail, as JSON.
func encode(value any) json.RawMessage {
	text, _ := json.Marshal(value) //nolint:errchkjson // See above.
	return text
}

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
	spec := o.Field("spec")
	if !bytes.Contains(spec, []byte(`"inline"`)) {
		return nil
	}
	decoded, err := object.DecodeExact(spec)
	if err != nil || !dropCode(decoded) {
		return nil
	}
	// kubectl apply keeps all of the manifest in the annotation.
	return []object.Edit{
		{Path: []string{"spec"}, Value: encode(decoded)},
		{Path: []string{"metadata", "annotations", corev1.LastAppliedConfigAnnotation}},
	}
}

// dropCode removes the code of the inline hooks in a value, and reports whether there is any.
func dropCode(in any) (dropped bool) {
	switch v := in.(type) {
	case []any:
		for _, item := range v {
			dropped = dropCode(item) || dropped
		}
	case map[string]any:
		if inline, is := v["inline"].(map[string]any); is && inline["source"] != nil {
			delete(inline, "source")
			delete(inline, "modules")
			return true
		}
		for _, item := range v {
			dropped = dropCode(item) || dropped
		}
	}
	return dropped
}

// encode returns a value of texts and JSON values, whose encoding cannot fail, as JSON.
func encode(value any) json.RawMessage {
	text, _ := json.Marshal(value) //nolint:errchkjson // See above.
	return text
}

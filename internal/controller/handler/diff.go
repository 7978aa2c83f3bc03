package handler

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Changes returns how the fields that a handler watches differ, sorted by path.
func (h *Handler) Changes(old, now *object.Object) []hook.FieldChange {
	if old == nil || now == nil || old == now {
		return nil
	}
	before, after := h.watchedFields(old), h.watchedFields(now)
	// Metadata always exist. They only look deleted when nothing watched remains in them.
	for _, side := range []map[string]any{before, after} {
		if side["metadata"] == nil {
			side["metadata"] = map[string]any{}
		}
	}
	return changes(before, after)
}

// Compare returns how two JSON objects differ, sorted by path.
func Compare(old, now json.RawMessage) []hook.FieldChange {
	return changes(decodeObject(old), decodeObject(now))
}

func changes(old, now map[string]any) (all []hook.FieldChange) {
	for _, change := range object.Changes(old, now) {
		all = append(all, hook.FieldChange(change))
	}
	return all
}

// toJSON returns a decoded value as JSON.
func toJSON(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		return nil // Decoded JSON always encodes.
	}
	return text
}

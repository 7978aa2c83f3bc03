package handle

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"

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
	var d fieldChanges
	d.objects("", before, after)
	return d
}

// Compare returns how two JSON objects differ, sorted by path.
func Compare(old, now json.RawMessage) []hook.FieldChange {
	var d fieldChanges
	d.objects("", decodeObject(old), decodeObject(now))
	return d
}

// fieldChanges collects changes, member by member and item by item.
type fieldChanges []hook.FieldChange

func (d *fieldChanges) values(path string, old, now any) {
	oldObject, wasObject := old.(map[string]any)
	nowObject, isObject := now.(map[string]any)
	oldList, wasList := old.([]any)
	nowList, isList := now.([]any)
	switch {
	case wasObject && isObject:
		d.objects(path, oldObject, nowObject)
	case wasList && isList:
		d.lists(path, oldList, nowList)
	case !reflect.DeepEqual(old, now):
		*d = append(*d, hook.FieldChange{Path: path, From: toJSON(old), To: toJSON(now)})
	}
}

func (d *fieldChanges) objects(path string, old, now map[string]any) {
	names := maps.Clone(old)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.values(object.JoinPath(path, name), old[name], now[name])
	}
}

func (d *fieldChanges) lists(path string, old, now []any) {
	for i := range max(len(old), len(now)) {
		d.values(path+"["+strconv.Itoa(i)+"]", itemAt(old, i), itemAt(now, i))
	}
}

func itemAt(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// toJSON returns a value as JSON; nil for none.
func toJSON(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil // Decoded JSON always encodes.
	}
	return text
}

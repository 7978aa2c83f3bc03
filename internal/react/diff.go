package react

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// changes say how what a handler watches differs from what it dealt with, sorted
// by path.
func (h *Handler) changes(old, now *object.Object) []hook.FieldChange {
	if old == nil || now == nil || old == now {
		return nil
	}
	var d differences
	d.objects("", h.watched(old), h.watched(now))
	return d
}

// differences are gathered member by member and item by item.
type differences []hook.FieldChange

func (d *differences) values(path string, old, now any) {
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
		*d = append(*d, hook.FieldChange{Path: path, Old: textOf(old), New: textOf(now)})
	}
}

func (d *differences) objects(path string, old, now map[string]any) {
	names := maps.Clone(old)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		below := name
		if path != "" {
			below = path + "." + name
		}
		d.values(below, old[name], now[name])
	}
}

func (d *differences) lists(path string, old, now []any) {
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

// textOf is a value as JSON; nil for none.
func textOf(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil // What was decoded from JSON can be written.
	}
	return text
}

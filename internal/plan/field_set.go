package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// fieldSet returns a value with every scalar replaced by {}, except for nulls and the keys of list items. It
// is all that a later merge needs, it is small, and it contains no secrets.
func fieldSet(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return objectFieldSet(v, false)
	case []any:
		return listFieldSet(v)
	case nil:
		return nil
	}
	return map[string]any{}
}

func objectFieldSet(members map[string]any, isItem bool) map[string]any {
	outlined := make(map[string]any, len(members))
	for name, value := range members {
		if isItem && isKeyField(name) && isScalar(value) {
			outlined[name] = value
			continue
		}
		outlined[name] = fieldSet(value)
	}
	return outlined
}

// listFieldSet returns the field set of a list. It includes the keys of its items if they are unique.
func listFieldSet(list []any) []any {
	keyed := haveUniqueKeys(list)
	items := make([]any, len(list))
	for i, item := range list {
		members, isObject := item.(map[string]any)
		if isObject && keyed {
			items[i] = objectFieldSet(members, true)
			continue
		}
		items[i] = fieldSet(item)
	}
	return items
}

func fieldSetHash(members map[string]any) string {
	var p fieldSetWriter
	p.members(members, false)
	sum := sha256.Sum256(p.text)
	return hex.EncodeToString(sum[:8])
}

// fieldSetWriter writes a field set in a canonical form without building it.
type fieldSetWriter struct{ text []byte }

func (p *fieldSetWriter) members(members map[string]any, isItem bool) {
	p.text = append(p.text, '{')
	for _, name := range slices.Sorted(maps.Keys(members)) {
		p.text = strconv.AppendQuote(p.text, name)
		value := members[name]
		if isItem && isKeyField(name) && isScalar(value) {
			p.text = fmt.Appendf(p.text, "=%#v", value)
			continue
		}
		p.value(value)
	}
	p.text = append(p.text, '}')
}

func (p *fieldSetWriter) value(value any) {
	switch v := value.(type) {
	case map[string]any:
		p.members(v, false)
	case []any:
		p.items(v)
	case nil:
		p.text = append(p.text, '-')
	}
	p.text = append(p.text, ',')
}

func (p *fieldSetWriter) items(list []any) {
	keyed := haveUniqueKeys(list)
	p.text = append(p.text, '[')
	for _, item := range list {
		members, isObject := item.(map[string]any)
		if isObject && keyed {
			p.members(members, true)
			continue
		}
		p.value(item)
	}
	p.text = append(p.text, ']')
}

// haveUniqueKeys reports whether a key identifies the items of a list.
func haveUniqueKeys(list []any) bool {
	return slices.ContainsFunc(object.ChildKeys, func(k object.ItemKey) bool {
		_, fits := k.Index(list)
		return fits
	})
}

// isKeyField reports whether a field may be the key of list items.
func isKeyField(field string) bool {
	return field == "protocol" || slices.ContainsFunc(object.ChildKeys, func(k object.ItemKey) bool { return k.Field == field })
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

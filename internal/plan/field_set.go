package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// fieldSet is a tree of what is applied without what it is set to: every value
// becomes {}, but for those by which the items of a list are told apart. It is
// all that a later merge wants to know, it holds no secrets, and it is small.
func fieldSet(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return objectFieldSet(v, false)
	case []any:
		return listFieldSet(v)
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

// listFieldSet keeps of each item what outline keeps of it, and by what it is told
// apart, if they all are.
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

// fieldSetHash is a hash of the outline of an object.
func fieldSetHash(members map[string]any) string {
	var p fieldSetWriter
	p.members(members, false)
	sum := sha256.Sum256(p.text)
	return hex.EncodeToString(sum[:8])
}

// fieldSetWriter writes an outline down, each outline in one way, without making it first.
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

// haveUniqueKeys says that some key tells the items of a list apart.
func haveUniqueKeys(list []any) bool {
	return slices.ContainsFunc(childKeys, func(k itemKey) bool {
		_, fits := k.index(list)
		return fits
	})
}

// isKeyField says whether a field may tell the items of a list apart.
func isKeyField(field string) bool {
	return field == "protocol" || slices.ContainsFunc(childKeys, func(k itemKey) bool { return k.field == field })
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

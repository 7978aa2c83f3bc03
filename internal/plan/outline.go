package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// outline is a tree of what is applied without what it is set to: every value
// becomes {}, but for those by which the items of a list are told apart. It is
// all that a later merge wants to know, it holds no secrets, and it is small.
func outline(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return outlineObject(v, false)
	case []any:
		return outlineList(v)
	}
	return map[string]any{}
}

func outlineObject(members map[string]any, isItem bool) map[string]any {
	outlined := make(map[string]any, len(members))
	for name, value := range members {
		if isItem && identifies(name) && isScalar(value) {
			outlined[name] = value
			continue
		}
		outlined[name] = outline(value)
	}
	return outlined
}

// outlineList keeps of each item what outline keeps of it, and by what it is told
// apart, if they all are.
func outlineList(list []any) []any {
	apart := tellApart(list)
	items := make([]any, len(list))
	for i, item := range list {
		members, isObject := item.(map[string]any)
		if isObject && apart {
			items[i] = outlineObject(members, true)
			continue
		}
		items[i] = outline(item)
	}
	return items
}

// outlineHash is a hash of the outline of an object.
func outlineHash(members map[string]any) string {
	var p pen
	p.members(members, false)
	sum := sha256.Sum256(p.text)
	return hex.EncodeToString(sum[:8])
}

// pen writes an outline down, each outline in one way, without making it first.
type pen struct{ text []byte }

func (p *pen) members(members map[string]any, isItem bool) {
	p.text = append(p.text, '{')
	for _, name := range slices.Sorted(maps.Keys(members)) {
		p.text = strconv.AppendQuote(p.text, name)
		value := members[name]
		if isItem && identifies(name) && isScalar(value) {
			p.text = fmt.Appendf(p.text, "=%#v", value)
			continue
		}
		p.value(value)
	}
	p.text = append(p.text, '}')
}

func (p *pen) value(value any) {
	switch v := value.(type) {
	case map[string]any:
		p.members(v, false)
	case []any:
		p.items(v)
	}
	p.text = append(p.text, ',')
}

func (p *pen) items(list []any) {
	apart := tellApart(list)
	p.text = append(p.text, '[')
	for _, item := range list {
		members, isObject := item.(map[string]any)
		if isObject && apart {
			p.members(members, true)
			continue
		}
		p.value(item)
	}
	p.text = append(p.text, ']')
}

// tellApart says that some key tells the items of a list apart.
func tellApart(list []any) bool {
	return slices.ContainsFunc(childKeys, func(k itemKey) bool {
		_, fits := k.index(list)
		return fits
	})
}

// identifies says whether a field may tell the items of a list apart.
func identifies(field string) bool {
	return field == "protocol" || slices.ContainsFunc(childKeys, func(k itemKey) bool { return k.field == field })
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

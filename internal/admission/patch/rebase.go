package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// rebased returns raw, nil if there is none, with the difference of before and after.
func rebased(raw, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return raw
	}
	switch after := after.(type) {
	case map[string]any:
		before, was := before.(map[string]any)
		if object, is := raw.(map[string]any); was && (is || raw == nil) {
			return rebasedObject(object, before, after)
		}
	case []any:
		before, was := before.([]any)
		if list, is := raw.([]any); was && is && len(list) == len(before) {
			return rebasedList(list, before, after)
		}
	}
	return after
}

// rebasedObject returns nil if what was taken out of an object was never there.
func rebasedObject(raw, before, after map[string]any) any {
	result := maps.Clone(raw)
	if raw == nil {
		result = map[string]any{}
	}
	for name := range before {
		if _, stays := after[name]; !stays {
			delete(result, name)
		}
	}
	for name, value := range after {
		was, known := before[name]
		if known {
			value = rebased(raw[name], was, value)
		}
		if _, there := raw[name]; value != nil || there || !known {
			result[name] = value
		}
	}
	if raw == nil && len(result) == 0 {
		return nil
	}
	return result
}

// rebasedList applies changes to matching elements of raw.
func rebasedList(raw, before, after []any) []any {
	result := slices.Clone(after)
	for to, from := range origins(before, after) {
		if from >= 0 {
			result[to] = rebased(raw[from], before[from], after[to])
		}
	}
	return result
}

// origins returns for each element of after its index in before, or -1: equal elements match,
// then those of one identity, and in lists of one length those at one index whose identities do not differ.
func origins(before, after []any) []int {
	from, taken := slices.Repeat([]int{-1}, len(after)), make([]bool, len(before))
	for _, nameOf := range []func(any) string{textOf, identity} {
		free := map[string][]int{}
		for i, element := range before {
			if name := nameOf(element); name != "" && !taken[i] {
				free[name] = append(free[name], i)
			}
		}
		for i, element := range after {
			if from[i] >= 0 || len(free) == 0 {
				continue
			}
			if name := nameOf(element); len(free[name]) > 0 {
				from[i], free[name] = free[name][0], free[name][1:]
				taken[from[i]] = true
			}
		}
	}
	for i := range after {
		if len(before) == len(after) && from[i] < 0 && !taken[i] && !differentIdentity(before[i], after[i]) {
			from[i] = i
		}
	}
	return from
}

func textOf(value any) string {
	text, _ := json.Marshal(value) //nolint:errchkjson // It was decoded from JSON.
	return string(text)
}

// identityFields are the fields that identify elements of lists in Kubernetes, the most
// specific first.
var identityFields = []string{"name", "key", "uid", "type", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey"}

// identity is the identifying field of an element and its value, or "".
func identity(element any) string {
	members, _ := element.(map[string]any)
	for _, field := range identityFields {
		switch value := members[field].(type) {
		case nil, map[string]any, []any:
		default:
			return fmt.Sprintf("%s=%v", field, value)
		}
	}
	return ""
}

// differentIdentity reports whether two elements have the same identifying field with
// different values.
func differentIdentity(a, b any) bool {
	first, second := identity(a), identity(b)
	field, _, _ := strings.Cut(first, "=")
	return first != second && first != "" && strings.HasPrefix(second, field+"=")
}

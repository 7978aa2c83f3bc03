package testcase

import (
	"encoding/json"
	"maps"
	"slices"
)

// sortedByKey returns the values of a map in the order of its keys.
func sortedByKey[V any](of map[string]V) []V {
	var all []V
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[key])
	}
	return all
}

// encodeAll returns decoded values as JSON.
func encodeAll(all []any) []json.RawMessage {
	texts := make([]json.RawMessage, len(all))
	for i, each := range all {
		texts[i], _ = json.Marshal(each) //nolint:errchkjson // It was decoded.
	}
	return texts
}

package testcase

import (
	"encoding/json"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"maps"
	"slices"
)

// sortedByKey returns the values of a map in the order of its keys.
func sortedByKey[V any](of map[string]V) []V {
	return lists.Map(slices.Sorted(maps.Keys(of)), func(key string) V { return of[key] })
}

// encodeAll returns decoded values as JSON.
func encodeAll(all []any) []json.RawMessage {
	texts := make([]json.RawMessage, len(all))
	for i, each := range all {
		texts[i], _ = json.Marshal(each) //nolint:errchkjson // It was decoded.
	}
	return texts
}

package testcase

import (
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

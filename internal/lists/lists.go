// Package lists makes lists of lists and of maps: the results of a function, what fits, what is in one of two, and all keys.
package lists

import (
	"maps"
	"slices"
)

// Map returns the results of a function for each item; nil for none.
func Map[T, R any](items []T, result func(T) R) []R {
	if len(items) == 0 {
		return nil
	}
	all := make([]R, 0, len(items))
	for _, item := range items {
		all = append(all, result(item))
	}
	return all
}

// FlatMap returns the results of a function for all items in one list; nil for none.
func FlatMap[T, R any](items []T, results func(T) []R) []R {
	return slices.Concat(Map(items, results)...)
}

// Filter returns the items that fit, in order; nil for none.
func Filter[T any](items []T, fits func(T) bool) []T {
	var all []T
	for _, item := range items {
		if fits(item) {
			all = append(all, item)
		}
	}
	return all
}

// Union returns a list with the items of another one that it lacks.
func Union[T comparable](items, more []T) []T {
	for _, item := range more {
		if !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

// Keys returns the keys of maps, sorted, each once.
func Keys[V any](of ...map[string]V) []string {
	var all []string
	for _, one := range of {
		all = slices.AppendSeq(slices.Grow(all, len(one)), maps.Keys(one))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

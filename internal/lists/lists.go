// Package lists makes lists of lists: the results of a function, what fits, and what is in one of two.
package lists

import "slices"

// Map returns the results of a function for each item; nil for none.
func Map[T, R any](items []T, result func(T) R) []R {
	var all []R
	for _, item := range items {
		all = append(all, result(item))
	}
	return all
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

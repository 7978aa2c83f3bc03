package userclient

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
)

// MaxParallel is how many requests of one page run at the same time.
const MaxParallel = 8

// InParallel calls do with the numbers below n, at most MaxParallel at the same time.
func InParallel(n int, do func(i int)) {
	workqueue.ParallelizeUntil(context.Background(), MaxParallel, n, do)
}

// FilterAllowed returns the items that are allowed, in order. It calls may in parallel on copies of the items.
func FilterAllowed[T any](all []T, may func(*T) bool) []T {
	items := slices.Clone(all)
	is := make([]bool, len(items))
	InParallel(len(items), func(i int) { is[i] = may(&items[i]) })
	var found []T
	for i := range items {
		if is[i] {
			found = append(found, items[i])
		}
	}
	return found
}

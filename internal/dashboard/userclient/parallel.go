package userclient

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
)

// InParallel calls do with the numbers below n, a few at the same time.
func InParallel(n, limit int, do func(i int)) {
	workqueue.ParallelizeUntil(context.Background(), limit, n, do)
}

// MaxParallelReviews is how many access reviews run at the same time.
const MaxParallelReviews = 8

// FilterAllowed returns the items that are allowed, in order. It calls may in parallel on
// copies of the items.
func FilterAllowed[T any](all []T, may func(*T) bool) []T {
	items := slices.Clone(all)
	is := make([]bool, len(items))
	InParallel(len(items), MaxParallelReviews, func(i int) { is[i] = may(&items[i]) })
	var found []T
	for i := range items {
		if is[i] {
			found = append(found, items[i])
		}
	}
	return found
}

package dashboard

import (
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// accessErrors collects errors of access reviews. A page with such an error is not shown, since
// it may lack what the user may see.
type accessErrors struct{ err atomic.Pointer[error] }

// record records an error. A user who may not create access reviews has no permissions.
func (d *accessErrors) record(err error) {
	if err != nil && !apierrors.IsForbidden(err) {
		d.err.CompareAndSwap(nil, &err)
	}
}

// first returns the first error.
func (d *accessErrors) first() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// inParallel calls do with the numbers below n, a few at the same time.
func inParallel(n, limit int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(limit)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // None of them fails.
}

// maxParallelReviews is how many access reviews run at the same time.
const maxParallelReviews = 8

// filterAllowed returns the items that are allowed, in order. It calls may in parallel on
// copies of the items.
func filterAllowed[T any](all []T, may func(*T) bool) []T {
	items := slices.Clone(all)
	is := make([]bool, len(items))
	inParallel(len(items), maxParallelReviews, func(i int) { is[i] = may(&items[i]) })
	var found []T
	for i := range items {
		if is[i] {
			found = append(found, items[i])
		}
	}
	return found
}

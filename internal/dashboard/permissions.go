package dashboard

import (
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// accessErrors is why it is not known what a visitor may see: the API server does not answer.
// What is left out of a page for that may be theirs to see, so that there is no page.
type accessErrors struct {
	mu  sync.Mutex
	err error
}

// record notes an error of asking for a right. Who may not even ask has no right.
func (d *accessErrors) record(err error) {
	if err == nil || apierrors.IsForbidden(err) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
}

// first is the first of the errors; nil if there is no doubt.
func (d *accessErrors) first() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// maxParallelReviews is how many rights are asked for at the same time.
const maxParallelReviews = 8

// filterAllowed are those of some things that may be shown, in their order. It is asked of
// several at the same time, each of which is may's own to change.
func filterAllowed[T any](all []T, may func(*T) bool) []T {
	asked := slices.Clone(all)
	is := make([]bool, len(asked))
	var group errgroup.Group
	group.SetLimit(maxParallelReviews)
	for i := range asked {
		group.Go(func() error {
			is[i] = may(&asked[i])
			return nil
		})
	}
	_ = group.Wait() // None of them fails.
	var found []T
	for i := range asked {
		if is[i] {
			found = append(found, asked[i])
		}
	}
	return found
}

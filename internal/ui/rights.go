package ui

import (
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// doubt is why it is not known what a visitor may see: the API server does not answer.
// What is left out of a page for that may be theirs to see, so that there is no page.
type doubt struct {
	mu  sync.Mutex
	err error
}

// note notes an error of asking for a right. Who may not even ask has no right.
func (d *doubt) note(err error) {
	if err == nil || apierrors.IsForbidden(err) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
}

// reason is the first of the errors; nil if there is no doubt.
func (d *doubt) reason() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// manyRights is how many rights are asked for at the same time.
const manyRights = 8

// allowed are those of some things that may be shown, in their order. It is asked of
// several at the same time, each of which is may's own to change.
func allowed[T any](all []T, may func(*T) bool) []T {
	asked := slices.Clone(all)
	is := make([]bool, len(asked))
	var group errgroup.Group
	group.SetLimit(manyRights)
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

package userclient

import (
	"context"
	"errors"
	"sync"
	"time"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// How long results of access reviews are cached, also while the API server is unreachable; the
// timeout of a review; how long not to retry after a timeout; and the size of the cache of a
// user.
const (
	accessMaxAge        = 15 * time.Second
	outageAccessMaxAge  = 10 * time.Minute
	reviewTimeout       = 5 * time.Second
	reviewRetryInterval = 3 * time.Second
	maxAccessEntries    = 4096
)

// accessCache caches the permissions of one user.
type accessCache struct {
	mu      sync.Mutex
	entries map[accessKey]accessResult
	// unreachableAt is when the last review failed.
	unreachableAt time.Time
}

type accessKey struct {
	verb            string
	kind            object.Kind
	namespace, name string
}

type accessResult struct {
	allowed bool
	at      time.Time
}

func newAccessCache() *accessCache { return &accessCache{entries: map[accessKey]accessResult{}} }

// CanI reports whether the user may do something, like kubectl auth can-i. An empty namespace
// means all namespaces, an empty name all objects. It only decides what pages offer, since the
// API server checks each request.
//
// The kind may lack the plural. A kind that is not served allows nothing.
//
// An error means that the permission is unknown. While the API server is unreachable, cached
// results are used; the error of a new one wraps ErrUnreachable.
func (c *Client) CanI(ctx context.Context, verb string, kind object.Kind, namespace, name string) (bool, error) {
	if kind.Plural == "" {
		served, err := c.Kind(ctx, kind.Resource())
		switch {
		case errors.Is(err, ErrUnreachable):
			return false, err
		case err != nil:
			return false, nil //nolint:nilerr // A kind that is not served is an answer.
		}
		kind = served
	}
	wanted := accessKey{verb, kind, namespace, name}
	known, stale := c.access.get(wanted, time.Now())
	if !stale {
		return known.allowed, nil
	}
	allowed, err := c.review(ctx, wanted)
	switch {
	case err == nil:
		c.access.put(wanted, accessResult{allowed, time.Now()})
		return allowed, nil
	case !errors.Is(err, ErrUnreachable):
		return false, err
	}
	now := time.Now()
	c.access.setUnreachable(now)
	if now.Sub(known.at) < outageAccessMaxAge {
		return known.allowed, nil
	}
	return false, err
}

// review creates a SelfSubjectAccessReview.
func (c *Client) review(ctx context.Context, wanted accessKey) (allowed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{
			Verb: wanted.verb, Group: wanted.kind.Group, Version: wanted.kind.Version, Resource: wanted.kind.Plural,
			Namespace: wanted.namespace, Name: wanted.name,
		},
	}}
	const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	err = c.post(ctx, path, &review, &review)
	return review.Status.Allowed, err
}

// get returns the cached result, and whether it must be reviewed again.
func (r *accessCache) get(wanted accessKey, now time.Time) (known accessResult, stale bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known = r.entries[wanted]
	limit := accessMaxAge
	if now.Sub(r.unreachableAt) < reviewRetryInterval {
		limit = outageAccessMaxAge
	}
	return known, now.Sub(known.at) >= limit
}

func (r *accessCache) setUnreachable(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreachableAt = now
}

func (r *accessCache) put(wanted accessKey, result accessResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) >= maxAccessEntries {
		clear(r.entries)
	}
	r.entries[wanted], r.unreachableAt = result, time.Time{}
}

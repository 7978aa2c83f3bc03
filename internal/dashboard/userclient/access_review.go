package userclient

import (
	"context"
	"errors"
	"sync"
	"time"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// How long an answer about a right is believed, and for how long while the API server
// does not answer; how long an answer may take, and for how long after none came what is
// known is not asked again; and how many are kept of a user.
const (
	accessMaxAge        = 15 * time.Second
	outageAccessMaxAge  = 10 * time.Minute
	reviewTimeout       = 5 * time.Second
	reviewRetryInterval = 3 * time.Second
	maxAccessEntries    = 4096
)

// accessCache are what one user may do, as answered lately.
type accessCache struct {
	mu      sync.Mutex
	entries map[accessKey]accessResult
	// unreachableAt is when the API server did not answer last.
	unreachableAt time.Time
}

type accessKey struct {
	verb            string
	kind            model.Kind
	namespace, name string
}

type accessResult struct {
	allowed bool
	at      time.Time
}

func newAccessCache() *accessCache { return &accessCache{entries: map[accessKey]accessResult{}} }

// CanI asks whether the user may do something: verb is that of RBAC, such as "delete".
// Without a namespace all of them are meant, without a name all objects. What it is for
// is to offer only what can be done: each request is checked by the API server all the
// same.
//
// An error says that it is not known, which is not a no. While the API server does not
// answer, what it said before holds; the error of a right that is new wraps
// ErrUnreachable then.
func (c *Client) CanI(ctx context.Context, verb string, kind model.Kind, namespace, name string) (bool, error) {
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

// review asks the API server for a right.
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

// get is what is known of a right, and whether it is to be asked for all the same.
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

func (r *accessCache) put(wanted accessKey, answer accessResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) >= maxAccessEntries {
		clear(r.entries)
	}
	r.entries[wanted], r.unreachableAt = answer, time.Time{}
}

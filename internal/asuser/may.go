package asuser

import (
	"context"
	"errors"
	"sync"
	"time"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// How long an answer about a right is believed, and for how long while the API server
// does not answer; how long an answer may take, and for how long after none came what is
// known is not asked again; and how many are kept of a user.
const (
	rightsLimit  = 15 * time.Second
	silenceLimit = 10 * time.Minute
	reviewLimit  = 5 * time.Second
	reviewRest   = 3 * time.Second
	maxRights    = 4096
)

// rights are what one user may do, as answered lately.
type rights struct {
	mu      sync.Mutex
	answers map[right]answered
	// silent is when the API server did not answer last.
	silent time.Time
}

type right struct {
	verb            string
	kind            inspect.Kind
	namespace, name string
}

type answered struct {
	allowed bool
	at      time.Time
}

func newRights() *rights { return &rights{answers: map[right]answered{}} }

// May asks whether the user may do something: verb is that of RBAC, such as "delete".
// Without a namespace all of them are meant, without a name all objects. What it is for
// is to offer only what can be done: each request is checked by the API server all the
// same.
//
// An error says that it is not known, which is not a no. While the API server does not
// answer, what it said before holds; the error of a right that is new wraps
// ErrUnreachable then.
func (c *Client) May(ctx context.Context, verb string, kind inspect.Kind, namespace, name string) (bool, error) {
	wanted := right{verb, kind, namespace, name}
	known, asksAgain := c.rights.get(wanted, time.Now())
	if !asksAgain {
		return known.allowed, nil
	}
	allowed, err := c.review(ctx, wanted)
	switch {
	case err == nil:
		c.rights.put(wanted, answered{allowed, time.Now()})
		return allowed, nil
	case !errors.Is(err, ErrUnreachable):
		return false, err
	}
	now := time.Now()
	c.rights.noteSilence(now)
	if now.Sub(known.at) < silenceLimit {
		return known.allowed, nil
	}
	return false, err
}

// review asks the API server for a right.
func (c *Client) review(ctx context.Context, wanted right) (allowed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reviewLimit)
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
func (r *rights) get(wanted right, now time.Time) (known answered, asksAgain bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known = r.answers[wanted]
	limit := rightsLimit
	if now.Sub(r.silent) < reviewRest {
		limit = silenceLimit
	}
	return known, now.Sub(known.at) >= limit
}

func (r *rights) noteSilence(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = now
}

func (r *rights) put(wanted right, answer answered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) >= maxRights {
		clear(r.answers)
	}
	r.answers[wanted], r.silent = answer, time.Time{}
}

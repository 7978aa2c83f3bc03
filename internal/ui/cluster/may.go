package cluster

import (
	"context"
	"sync"
	"time"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// rightsLimit is how long an answer about a right is believed, maxRights how many are
// kept of a user.
const (
	rightsLimit = 15 * time.Second
	maxRights   = 4096
)

// rights are what one user may do, as answered lately.
type rights struct {
	mu      sync.Mutex
	answers map[right]answered
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
// Without a namespace all of them are meant, without a name all objects. It is no if
// nobody answers. What it is for is to offer only what can be done: each request is
// checked by the API server all the same.
func (c *Client) May(ctx context.Context, verb string, kind inspect.Kind, namespace, name string) bool {
	wanted := right{verb, kind, namespace, name}
	if known, ok := c.rights.get(wanted); ok {
		return known
	}
	review := authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{
			Verb: verb, Group: kind.Group, Version: kind.Version, Resource: kind.Plural, Namespace: namespace, Name: name,
		},
	}}
	const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	if err := c.post(ctx, path, &review, &review); err != nil {
		return false
	}
	c.rights.put(wanted, review.Status.Allowed)
	return review.Status.Allowed
}

func (r *rights) get(wanted right) (allowed, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.answers[wanted]
	return a.allowed, ok && time.Since(a.at) < rightsLimit
}

func (r *rights) put(wanted right, allowed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) >= maxRights {
		clear(r.answers)
	}
	r.answers[wanted] = answered{allowed, time.Now()}
}

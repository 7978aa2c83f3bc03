package userclient

import (
	"context"
	"errors"
	"time"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// How long results of access reviews are cached, also while the API server is unreachable; and the
// timeout of a review.
const (
	accessMaxAge       = 15 * time.Second
	outageAccessMaxAge = 10 * time.Minute
	reviewTimeout      = 5 * time.Second
)

type accessKey struct {
	verb            string
	kind            object.Kind
	namespace, name string
}

type accessResult struct {
	allowed bool
	at      time.Time
}

// CanI reports whether the user may do something, like kubectl auth can-i. An empty namespace means all namespaces, an
// empty name all objects. It only decides what pages offer, since the API server checks each request.
//
// The kind may lack the plural. A kind that is not served allows nothing.
//
// An error means that the permission is unknown. While the API server is unreachable, cached
// results are used; the error of a new one wraps ErrUnreachable.
func (c *Client) CanI(ctx context.Context, verb string, kind object.Kind, namespace, name string) (bool, error) {
	if kind.Plural == "" {
		served, err := c.FindKind(ctx, kind.Resource())
		switch {
		case errors.Is(err, ErrUnreachable):
			return false, err
		case err != nil:
			return false, nil //nolint:nilerr // A kind that is not served is an answer.
		}
		kind = served
	}
	wanted := accessKey{verb, kind, namespace, name}
	cached, _ := c.access.Get(wanted)
	known, is := cached.(accessResult)
	if is && time.Since(known.at) < accessMaxAge {
		return known.allowed, nil
	}
	allowed, err := c.reviewAccess(ctx, wanted)
	switch {
	case err == nil:
		c.access.Add(wanted, accessResult{allowed, time.Now()}, outageAccessMaxAge)
	case is && errors.Is(err, ErrUnreachable):
		return known.allowed, nil
	}
	return allowed, err
}

func (c *Client) reviewAccess(ctx context.Context, wanted accessKey) (allowed bool, err error) {
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

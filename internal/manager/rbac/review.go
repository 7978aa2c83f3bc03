package rbac

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/identity"
)

// reviewConcurrency is the number of access reviews in flight.
const reviewConcurrency = 8

// Missing returns the permissions that Setpoint does not have.
func Missing(ctx context.Context, client rest.Interface, all Permissions) (Permissions, error) {
	return missing(all, func(n permission) (bool, error) {
		review := authorization.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
			Spec:     authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: n.attributes()},
		}
		err := client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").Body(&review).Do(ctx).Into(&review)
		return review.Status.Allowed, err
	})
}

// missingOf returns the permissions that a ServiceAccount does not have.
func missingOf(ctx context.Context, client rest.Interface, account identity.Account, all Permissions) (Permissions, error) {
	user := account.UserFor("")
	return missing(all, func(n permission) (bool, error) {
		review := authorization.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
			Spec: authorization.SubjectAccessReviewSpec{
				ResourceAttributes: n.attributes(), User: user, Groups: identity.Groups(user),
			},
		}
		err := client.Post().AbsPath(subjectAccessReviews.Path("", "")).Body(&review).Do(ctx).Into(&review)
		return review.Status.Allowed, err
	})
}

// missing returns the permissions that are not allowed.
func missing(all Permissions, allowed func(permission) (bool, error)) (Permissions, error) {
	all = all.grants()
	denied := make([]bool, len(all))
	var group errgroup.Group
	group.SetLimit(reviewConcurrency)
	for i, n := range all {
		group.Go(func() error {
			allowed, err := allowed(n)
			if err != nil {
				return fmt.Errorf("review access to %s: %w", n, err)
			}
			denied[i] = !allowed
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing Permissions
	for i, n := range all {
		if denied[i] {
			missing = append(missing, n)
		}
	}
	return missing, nil
}

func (n permission) attributes() *authorization.ResourceAttributes {
	return &authorization.ResourceAttributes{
		Group: n.resource.Group, Version: n.resource.Version, Resource: n.resource.Plural, Subresource: n.subresource,
		Verb: n.verb, Namespace: n.namespace, Name: n.name,
	}
}

// Username returns the user of the client; "" if the API server does not say.
func Username(ctx context.Context, client rest.Interface) string {
	review := authentication.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
	if client.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").Body(&review).Do(ctx).Into(&review) != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

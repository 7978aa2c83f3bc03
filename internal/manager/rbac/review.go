package rbac

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
)

// reviewConcurrency is the number of access reviews in flight.
const reviewConcurrency = 8

// Check asks the API server whether Setpoint has all permissions of a controller. The error
// is a refusal that names what is missing, with roles that grant it.
func Check(ctx context.Context, client rest.Interface, controller string, all Permissions) error {
	missing, err := Missing(ctx, client, all)
	if err != nil || len(missing) == 0 {
		return err
	}
	return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: missingError(controller, username(ctx, client), missing)}
}

// Missing returns the permissions that Setpoint does not have.
func Missing(ctx context.Context, client rest.Interface, all Permissions) (Permissions, error) {
	denied := make([]bool, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(reviewConcurrency)
	for i, n := range all {
		group.Go(func() error {
			allowed, err := review(groupCtx, client, n)
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

// review reports whether Setpoint has a permission.
func review(ctx context.Context, client rest.Interface, n permission) (bool, error) {
	review := authorization.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{
			Group: n.resource.Group, Version: n.resource.Version, Resource: n.resource.Plural, Subresource: n.subresource,
			Verb: n.verb, Namespace: n.namespace, Name: n.name,
		}},
	}
	err := client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").Body(&review).Do(ctx).Into(&review)
	return review.Status.Allowed, err
}

// username returns the user of the client; "" if the API server does not say.
func username(ctx context.Context, client rest.Interface) string {
	review := authentication.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
	if client.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").Body(&review).Do(ctx).Into(&review) != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

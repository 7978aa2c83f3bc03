package manager

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	authorization "k8s.io/api/authorization/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/request"
)

// accessReviewConcurrency is the number of access reviews in flight.
const accessReviewConcurrency = 8

// checkAccess asks the API server whether Setpoint has all permissions. The error is a
// refusal that names what is missing, with roles that grant it.
func (m *Manager) checkAccess(ctx context.Context, controller string, all []permission) error {
	granted := make([]bool, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(accessReviewConcurrency)
	for i, n := range all {
		group.Go(func() (err error) {
			if granted[i], err = m.allowed(groupCtx, n); err != nil {
				return fmt.Errorf("review access to %s: %w", n, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var missing []permission
	for i, n := range all {
		if !granted[i] {
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: m.missingAccessError(ctx, controller, missing)}
}

func (m *Manager) allowed(ctx context.Context, n permission) (bool, error) {
	review := authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{
			Group: n.resource.Group, Version: n.resource.Version, Resource: n.resource.Plural, Subresource: n.subresource,
			Verb: n.verb, Namespace: n.namespace, Name: n.name,
		},
	}}
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	response, err := request.Do(ctx, m.client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").Body(body))
	if err != nil {
		return false, err
	}
	err = json.Unmarshal(response, &review)
	return review.Status.Allowed, err
}

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorization "k8s.io/api/authorization/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// need is one thing a controller has to be allowed.
type need struct {
	resource    object.Resource
	subresource string
	verb        string
}

func (n need) String() string {
	name := n.resource.String()
	if n.subresource != "" {
		name += "/" + n.subresource
	}
	return n.verb + " " + name
}

// needs are the permissions that a controller of some kind takes, each once. One
// with a finalize hook keeps its own object until the parents are released.
func needs(kind object.Resource, c *compile.Compiled) []need {
	var all []need
	if c.Finalizes() {
		all = verbs(kind, "patch")
	}
	for i := range c.Programs {
		for _, n := range needsOf(&c.Programs[i]) {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// needsOf are those of one program. Children are updated whatever the method: to
// adopt, to release and to label them.
func needsOf(p *engine.Program) []need {
	all := verbs(p.Parent, "get", "list", "watch")
	if p.Finalize != nil || p.Mark != (plan.Mark{}) {
		all = append(all, verbs(p.Parent, "update", "patch")...)
	}
	if p.Parent.Status {
		all = append(all, need{p.Parent, "status", "update"})
	}
	for _, rule := range p.Children {
		all = append(all, verbs(rule.Resource, "get", "list", "watch", "create", "update", "delete")...)
		if rule.Strategy == plan.ServerSide {
			all = append(all, need{resource: rule.Resource, verb: "patch"})
		}
	}
	if p.Children.Rolling() {
		all = append(all, verbs(plan.ControllerRevisions, "get", "list", "watch", "create", "update", "delete")...)
	}
	return all
}

func verbs(resource object.Resource, names ...string) []need {
	all := make([]need, len(names))
	for i, name := range names {
		all[i] = need{resource: resource, verb: name}
	}
	return all
}

// permitParallel is how many permissions are asked for at a time.
const permitParallel = 8

// permitted asks the API server whether the program may do what it takes. The
// error is a refusal that names all that is missing, so that one grant mends it.
func (h *Host) permitted(ctx context.Context, all []need) error {
	granted := make([]bool, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(permitParallel)
	for i, n := range all {
		group.Go(func() (err error) {
			if granted[i], err = h.allowed(ctx, n); err != nil {
				return fmt.Errorf("ask for the permission to %s: %w", n, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var missing []string
	for i, n := range all {
		if !granted[i] {
			missing = append(missing, n.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: fmt.Errorf(
		"Setpoint lacks the permission to %s; grant it in all namespaces, and the controller starts by itself", strings.Join(missing, ", "))}
}

func (h *Host) allowed(ctx context.Context, n need) (bool, error) {
	review := authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{
			Group: n.resource.Group, Version: n.resource.Version, Resource: n.resource.Plural, Subresource: n.subresource, Verb: n.verb,
		},
	}}
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	answer, err := exchange(ctx, h.client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").Body(body))
	if err != nil {
		return false, err
	}
	err = json.Unmarshal(answer, &review)
	return review.Status.Allowed, err
}

package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Check reads manifests and returns why they must not be applied: objects of others, missing rights. It writes
// nothing. The documents are complete.
func (s *Shared) Check(ctx context.Context, config *rest.Config, paths []string, more []Right) ([]Document, error) {
	documents, err := Read(paths)
	if err == nil {
		err = s.complete(documents)
	}
	if err == nil {
		err = checkRights(ctx, config, append(s.rights(documents), more...))
	}
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, d := range documents {
		if _, _, err := s.decide(ctx, d.Object); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d, RefOf(d.Object), err))
		}
	}
	return documents, errors.Join(problems...)
}

// Right is what a user may do: a verb on a resource, in a namespace or on a cluster-scoped kind.
type Right struct{ Verb, Group, Resource, Subresource, Namespace string }

// Rights returns one for each verb.
func Rights(group, resource, namespace string, verbs ...string) []Right {
	all := make([]Right, len(verbs))
	for i, verb := range verbs {
		all[i] = Right{Verb: verb, Group: group, Resource: resource, Namespace: namespace}
	}
	return all
}

// String returns such as "create tenants.example.com in web".
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// rights returns what the user needs to apply documents, run the controllers among them, and remove all of
// it again.
func (s *Shared) rights(all []Document) []Right {
	var needed []Right
	definitions, _ := ownDefinitions() // They are part of the program, and read again when they are installed.
	definitions = append(definitions, all...)
	for _, d := range all {
		kind, known := s.kindOf(d.Object, definitions)
		if !known {
			continue // Applying it says so.
		}
		needed = append(needed, Rights(kind.Group, kind.Plural, d.Object.GetNamespace(), "get", "create", "patch", "delete")...)
		if slices.Contains(controllerGroups, kind.Group) {
			needed = append(needed, Rights(kind.Group, kind.Plural, "", "list", "watch", "update")...)
			needed = append(needed, Right{Verb: "patch", Group: kind.Group, Resource: kind.Plural, Subresource: "status"})
			needed = append(needed, Rights(crdKind.Group, "customresourcedefinitions", "", "get", "list", "watch")...)
		}
	}
	return needed
}

// checkRights returns all rights that the user lacks in one error.
func checkRights(ctx context.Context, config *rest.Config, needed []Right) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	slices.SortFunc(needed, func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })
	var missing []string
	for _, r := range slices.Compact(needed) {
		review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorization.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource,
				Subresource: r.Subresource, Namespace: r.Namespace},
		}}
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("review access: %w", err)
		}
		if !review.Status.Allowed {
			missing = append(missing, r.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("this user may not:\n%s", strings.Join(missing, "\n"))
}

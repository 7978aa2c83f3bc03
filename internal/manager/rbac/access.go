package rbac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Access compares what controllers need with what the API server allows.
type Access struct {
	Process  *Process
	Client   rest.Interface
	Accounts *identity.Reviewer
}

// Check refuses a controller that lacks permissions without which it cannot run, with roles that grant them. Its object
// is of a kind, if it has one.
//
// The identity in the namespace of each parent is not checked: the namespaces are not known.
func (a *Access) Check(ctx context.Context, kind object.Resource, c *compile.Compiled) error {
	all := a.Process.forController(kind, c)
	own, err := a.missingOwn(ctx, all, c.Account)
	if err != nil {
		return err
	}
	var others Permissions
	if c.Account.Namespace != "" && !own.has("create", on(subjectAccessReviews, "create")[0]) {
		if others, err = missingOf(ctx, a.Client, c.Account, all.Of(Identity)); err != nil {
			return err
		}
	}
	if len(own)+len(others) > 0 {
		command := "PROGRAM rbac"
		if kind != (object.Resource{}) {
			command = "setpoint rbac " + c.Name()
		}
		of := refused{controller: c.Name(), command: command, user: Username(ctx, a.Client), account: c.Account}
		return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: of.explain(slices.Concat(own, others))}
	}
	if c.Account.PerNamespace() {
		return nil
	}
	if err = a.Accounts.CheckExists(ctx, c.Account.UserFor("")); errors.Is(err, identity.ErrForbidden) {
		return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: err}
	}
	return err
}

// missingOwn returns the permissions that the process lacks, those to act as the identity included. It may act by
// constrained impersonation or by the older kind.
func (a *Access) missingOwn(ctx context.Context, all Permissions, account identity.Account) (Permissions, error) {
	missing, err := Missing(ctx, a.Client, slices.Concat(all.Of(Own), all.Impersonation(account, false)))
	if err != nil || !slices.ContainsFunc(missing, func(n permission) bool { return n.verb == "impersonate" }) {
		return missing, err
	}
	constrained, err := ServesConstrainedImpersonation(ctx, a.Client)
	if err != nil || !constrained {
		return missing, err
	}
	return Missing(ctx, a.Client, slices.Concat(all.Of(Own), all.Impersonation(account, true)))
}

// constrainedSince is the version in which constrained impersonation is on by default.
const constrainedSince = "1.36"

// ServesConstrainedImpersonation reports whether the API server is new enough for it. Older ones, and those with the
// feature turned off, need the verb impersonate.
func ServesConstrainedImpersonation(ctx context.Context, client rest.Interface) (bool, error) {
	var served apiversion.Info
	text, err := request.Do(ctx, client.Get().AbsPath("/version"))
	if err == nil {
		err = json.Unmarshal(text, &served)
	}
	if err != nil {
		return false, fmt.Errorf("read the version of the API server: %w", err)
	}
	found, err := version.ParseGeneric(served.GitVersion)
	return err == nil && found.AtLeast(version.MustParseGeneric(constrainedSince)), nil
}

// CheckNamespaces is Check for a controller object. Where the controller is limited to namespaces, it excludes those that
// do not exist or in which permissions are missing, and goes on in the others.
func (a *Access) CheckNamespaces(ctx context.Context, kind object.Resource, compiled *compile.Compiled) error {
	err := a.Check(ctx, kind, compiled)
	if compiled.Absent = AbsentNamespaces(ctx, a.Client, slices.Concat(compiled.Namespaces(), missingIn(err))); len(compiled.Absent) > 0 {
		compiled.Notes = append(compiled.Notes, strings.Join(compiled.Absent, ", ")+
			": no such namespace; the controller starts there when it exists and Setpoint has the permissions")
	}
	gone := slices.DeleteFunc(missingIn(err), func(name string) bool { return !slices.Contains(compiled.Absent, name) })
	switch {
	case len(gone) == 0:
	case compiled.Exclude(gone) == nil:
		// The message has Roles in these namespaces.
		return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: fmt.Errorf("%s: no such namespace; create it first; %w",
			strings.Join(gone, ", "), err)}
	default:
		err = a.Check(ctx, kind, compiled)
	}
	forbidden := missingIn(err)
	left := compiled.Exclude(forbidden)
	if len(forbidden) == 0 || left == nil {
		return err
	}
	compiled.Incomplete = &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: fmt.Errorf(
		"the controller works in %s, but not in %s: %w", strings.Join(left, ", "), strings.Join(forbidden, ", "), err)}
	return nil
}

// missingIn returns the namespaces in which permissions are missing; none if one is missing in all namespaces or for a
// cluster-scoped kind.
func missingIn(err error) []string {
	denied, is := errors.AsType[*MissingError](err)
	if !is || slices.ContainsFunc(denied.missing, func(n permission) bool { return n.namespace == "" }) {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(lists.Map(denied.missing, func(n permission) string { return n.namespace }))))
}

// AbsentNamespaces returns those of the namespaces that do not exist, as far as Setpoint may know.
func AbsentNamespaces(ctx context.Context, client rest.Interface, names []string) []string {
	return slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))), func(name string) bool {
		err := client.Get().AbsPath(object.Namespaces.Path("", name)).SetHeader("Accept", request.Metadata).Do(ctx).Error()
		return !apierrors.IsNotFound(err)
	})
}

// maxManifest limits the roles in a message: a user has to read it, and a condition has 32 KiB.
const maxManifest = 8 << 10

// MissingError says which permissions are missing.
type MissingError struct {
	message string
	missing Permissions
}

func (e *MissingError) Error() string { return e.message }

// Persists reports whether all of them are still missing, those of an identity aside. It asks for these only.
func (e *MissingError) Persists(ctx context.Context, client rest.Interface) bool {
	still, err := Missing(ctx, client, e.missing.Of(Own))
	return err == nil && len(still) == len(e.missing)
}

// refused is a controller without some of its permissions.
type refused struct {
	controller string
	// command prints all roles of the controller.
	command string
	// user is Setpoint's own; "" if unknown.
	user    string
	account identity.Account
}

// explain names missing permissions in its first line. The roles that grant them follow, so that all but the first line
// can be piped to kubectl.
func (l *refused) explain(missing Permissions) error {
	var who []string
	if own := missing.Of(Own); len(own) > 0 {
		as := ""
		if l.user != "" {
			as = " as " + l.user
		}
		who = append(who, "Setpoint"+as+" may not "+own.Summary())
	}
	if others := missing.Of(Identity); len(others) > 0 {
		who = append(who, fmt.Sprintf("the ServiceAccount %s may not %s", l.account, others.Summary()))
	}
	text, err := l.manifests(missing)
	if err != nil {
		return err
	}
	command := "kubectl apply -f -"
	if len(text) > maxManifest {
		command, text = l.command+" | kubectl apply -f -", nil
	}
	message := fmt.Sprintf("%s; the controller starts when this is granted\n# To grant it: %s\n%s", strings.Join(who, "; "), command, text)
	return &MissingError{strings.TrimSpace(message), missing}
}

// manifests returns the roles that grant what is missing.
func (l *refused) manifests(missing Permissions) ([]byte, error) {
	name := l.controller[strings.Index(l.controller, "/")+1:]
	// The controller and what it needs are in the message; comments would repeat them.
	missing = missing.grants()
	own := Roles("setpoint-grant-"+name, subjectOf(l.user), missing.Of(Own).RulesByNamespace())
	others := Roles("setpoint-serviceaccount-"+name, subjectOfAccount(l.account), missing.Of(Identity).RulesByNamespace())
	return YAML(slices.Concat(own, others))
}

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

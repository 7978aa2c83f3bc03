package userclient

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Permission is a permission of a user.
type Permission struct {
	User     string
	Verb     string
	Resource string
	Group    string
	// Namespace is empty for cluster-wide permissions.
	Namespace string
}

var forbiddenPattern = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)`)

// MissingPermission returns the permission that a rejected request needed. It returns false for other errors.
func MissingPermission(err error) (Permission, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Permission{}, false
	}
	m := forbiddenPattern.FindStringSubmatch(status.Status().Message)
	if m == nil {
		return Permission{}, false
	}
	return Permission{User: m[1], Verb: m[2], Resource: m[3], Group: m[4], Namespace: m[5]}, true
}

// Forbidden returns the error of the API server for a request without the permission, for all objects if name is "".
func (r Permission) Forbidden(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: r.Group, Resource: r.Resource}, name, errors.New(r.Missing()))
}

// Missing says that the permission is missing, in the words of the API server: `User "ann" cannot create resource
// "guitars" in API group "kool.example.org" in the namespace "shop"`, or "you cannot …" if the user is unknown.
func (r Permission) Missing() string {
	where := "at the cluster scope"
	if r.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", r.Namespace)
	}
	who := "you"
	if r.User != "" {
		who = fmt.Sprintf("User %q", r.User)
	}
	return fmt.Sprintf("%s cannot %s resource %q in API group %q %s", who, r.Verb, r.Resource, r.Group, where)
}

// Commands returns kubectl commands that grant the permission.
func (r Permission) Commands() []string {
	main, _, _ := strings.Cut(r.Resource, "/")
	name := ShellQuote(main + "-" + r.Verb)
	subject := "--user=" + ShellQuote(r.User)
	if account, ok := strings.CutPrefix(r.User, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + ShellQuote(account)
	}
	resource := strings.TrimSuffix(main+"."+r.Group, ".") + strings.TrimPrefix(r.Resource, main) // A subresource follows the group.
	to := " --verb=" + ShellQuote(r.Verb) + " --resource=" + ShellQuote(resource)
	if r.Namespace == "" {
		return []string{
			"kubectl create clusterrole " + name + to,
			"kubectl create clusterrolebinding " + name + " --clusterrole=" + name + " " + subject,
		}
	}
	in := " -n " + ShellQuote(r.Namespace)
	return []string{
		"kubectl create role " + name + to + in,
		"kubectl create rolebinding " + name + " --role=" + name + " " + subject + in,
	}
}

// ShellQuote quotes a word for a shell.
func ShellQuote(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:/@") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

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

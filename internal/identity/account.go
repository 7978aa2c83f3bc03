// Package identity knows as which ServiceAccount a controller acts, and asks the API server what that
// ServiceAccount may read.
//
// Writes, and reads from the API server, are made as the ServiceAccount by impersonation, so that the API
// server decides on them. What comes from the shared cache was read with Setpoint's own rights: a Reviewer
// decides on it. Compile reads the accounts from specs, the controllers use both.
package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Account names the ServiceAccount of a controller. The zero value means Setpoint's own rights.
type Account struct {
	// Namespace is empty for the namespace of each parent or handled object.
	Namespace, Name string
}

// Parse reads NAMESPACE/NAME, or NAME alone for the namespace of each object. The empty text is the zero
// value.
func Parse(text string) (Account, error) {
	if text == "" {
		return Account{}, nil
	}
	namespace, name, both := strings.Cut(text, "/")
	if !both {
		namespace, name = "", text
	}
	if both && namespace == "" {
		return Account{}, fmt.Errorf("%q has an empty namespace; want NAMESPACE/NAME or NAME", text)
	}
	account := Account{Namespace: namespace, Name: name}
	return account, account.check()
}

// check validates the names.
func (a Account) check() error {
	if problems := validation.ValidateServiceAccountName(a.Name, false); len(problems) > 0 {
		return fmt.Errorf("%q is not the name of a ServiceAccount: %s", a.Name, problems[0])
	}
	if a.Namespace == "" {
		return nil
	}
	if problems := validation.ValidateNamespaceName(a.Namespace, false); len(problems) > 0 {
		return fmt.Errorf("%q is not the name of a namespace: %s", a.Namespace, problems[0])
	}
	return nil
}

// IsZero reports whether the controller acts with Setpoint's own rights.
func (a Account) IsZero() bool { return a == Account{} }

// PerNamespace reports whether each namespace has a ServiceAccount of its own.
func (a Account) PerNamespace() bool { return a.Name != "" && a.Namespace == "" }

// In returns the ServiceAccount for an object in a namespace.
func (a Account) In(namespace string) Account {
	if a.PerNamespace() {
		a.Namespace = namespace
	}
	return a
}

// UserPrefix is how the API server names the users of ServiceAccounts.
const UserPrefix = "system:serviceaccount:"

// UserFor returns the user for an object in a namespace; "" for Setpoint itself.
func (a Account) UserFor(namespace string) string {
	if a.IsZero() {
		return ""
	}
	a = a.In(namespace)
	return UserPrefix + a.Namespace + ":" + a.Name
}

// OfUser returns the ServiceAccount of a user.
func OfUser(user string) Account {
	namespace, name, _ := strings.Cut(strings.TrimPrefix(user, UserPrefix), ":")
	return Account{Namespace: namespace, Name: name}
}

// String returns the form that Parse reads.
func (a Account) String() string {
	if a.Namespace == "" {
		return a.Name
	}
	return a.Namespace + "/" + a.Name
}

const (
	// AllowedTTL is how long a right counts after it was revoked, at most.
	AllowedTTL = 30 * time.Second
	// DeniedTTL is how long a right is missed after it was granted, at most.
	DeniedTTL = 5 * time.Second
	// maxDecisions limits the memory for decisions; the least recently used are dropped.
	maxDecisions = 16384
)

// Reviewer decides what ServiceAccounts may read, by SubjectAccessReviews. It caches the decisions and is
// safe for concurrent use.
type Reviewer struct {
	client    rest.Interface
	decisions *cache.LRUExpireCache
	flights   singleflight.Group
}

// NewReviewer returns a Reviewer. Its client needs create on subjectaccessreviews, and get on the
// ServiceAccounts.
func NewReviewer(client rest.Interface) *Reviewer {
	return &Reviewer{client: client, decisions: cache.NewLRUExpireCache(maxDecisions)}
}

// ErrForbidden is wrapped by errors about what a ServiceAccount may not do.
var ErrForbidden = errors.New("forbidden")

// CheckRead returns an error that wraps ErrForbidden unless a user may read an object: get it, or list the
// kind in its namespace or in all. The ServiceAccount of the user has to exist: its role bindings outlive it.
// The empty user, Setpoint itself, may read what it has read.
func (r *Reviewer) CheckRead(ctx context.Context, user string, resource object.Resource, namespace, name string) error {
	err := r.CheckList(ctx, user, resource, namespace)
	if !errors.Is(err, ErrForbidden) {
		return err
	}
	if gone := r.CheckExists(ctx, user); gone != nil {
		return gone // CheckList has forbidden it for this reason, which the right to get does not change.
	}
	get := question{user: user, verb: "get", resource: resource, namespace: namespace, name: name}
	if allowed, failed := r.decide(ctx, get, r.review); allowed || failed != nil {
		return failed
	}
	return err
}

// CheckList is CheckRead for all objects of a kind, in each of some namespaces, of which "" means all.
func (r *Reviewer) CheckList(ctx context.Context, user string, resource object.Resource, namespaces ...string) error {
	if user == "" {
		return nil
	}
	if err := r.CheckExists(ctx, user); err != nil {
		return err
	}
	// The widest right first: one decision then serves many namespaces.
	allowed, err := r.decide(ctx, question{user: user, verb: "list", resource: resource}, r.review)
	if allowed || err != nil {
		return err
	}
	for _, namespace := range namespaces {
		in := "in all namespaces"
		switch {
		case !resource.Namespaced:
			in = "of the cluster"
		case namespace != "":
			in = fmt.Sprintf("in the namespace %q", namespace)
			allowed, err = r.decide(ctx, question{user: user, verb: "list", resource: resource, namespace: namespace}, r.review)
		}
		if err != nil {
			return err
		}
		if !allowed {
			return forbidden("reading %s %s is %w for the ServiceAccount %s", resource, in, ErrForbidden, OfUser(user))
		}
	}
	return nil
}

// forbidden returns an error with the reason of events.
func forbidden(format string, args ...any) error {
	return failure.WithReason(setpoint.ReasonForbidden, fmt.Errorf(format, args...))
}

// question is one thing to decide, and a key of the cache.
type question struct {
	user, verb      string
	resource        object.Resource
	namespace, name string
}

// CheckExists returns an error that wraps ErrForbidden unless the ServiceAccount of a user exists: its role
// bindings outlive it, and the API server impersonates users that do not exist.
func (r *Reviewer) CheckExists(ctx context.Context, user string) error {
	if user == "" {
		return nil
	}
	account := OfUser(user)
	exists, err := r.decide(ctx, question{user: user, verb: "exist"}, func(ctx context.Context, _ question) (bool, error) {
		err := r.client.Get().AbsPath(object.ServiceAccounts.Path(account.Namespace, account.Name)).
			SetHeader("Accept", request.Metadata).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the ServiceAccount %s: %w", account, err)
		}
		return true, nil
	})
	if err == nil && !exists {
		return forbidden("%w: the ServiceAccount %s does not exist; create it: kubectl -n %s create serviceaccount %s",
			ErrForbidden, account, account.Namespace, account.Name)
	}
	return err
}

// decide returns the cached decision, or makes one request for all that wait for it.
func (r *Reviewer) decide(ctx context.Context, of question, request func(context.Context, question) (bool, error)) (bool, error) {
	if known, found := r.decisions.Get(of); found {
		return known == true, nil
	}
	decided := r.flights.DoChan(fmt.Sprint(of), func() (any, error) {
		if known, found := r.decisions.Get(of); found {
			return known == true, nil // Decided since the caller looked.
		}
		// Others may wait for the decision when this caller's context ends.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		allowed, err := request(limited, of)
		if err != nil {
			return false, err
		}
		ttl := DeniedTTL
		if allowed {
			ttl = AllowedTTL
		}
		r.decisions.Add(of, allowed, ttl)
		return allowed, nil
	})
	select {
	case result := <-decided:
		return result.Val == true, result.Err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// reviewTimeout limits one request.
const reviewTimeout = 10 * time.Second

func (r *Reviewer) review(ctx context.Context, of question) (bool, error) {
	review := authorization.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorization.SubjectAccessReviewSpec{
			User:   of.user,
			Groups: Groups(of.user),
			ResourceAttributes: &authorization.ResourceAttributes{
				Group: of.resource.Group, Version: of.resource.Version, Resource: of.resource.Plural,
				Verb: of.verb, Namespace: of.namespace, Name: of.name,
			},
		},
	}
	err := r.client.Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").Body(&review).Do(ctx).Into(&review)
	if err != nil {
		return false, fmt.Errorf("review the access of the ServiceAccount %s: %w", OfUser(of.user), err)
	}
	return review.Status.Allowed, nil
}

// Groups returns the groups that the API server adds to the user of a ServiceAccount.
func Groups(user string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + OfUser(user).Namespace, "system:authenticated"}
}

// Package userclient is the API server as one user sees it.
//
// Here live all requests that pages make, and some of the terminal: which kinds there are, objects and tables
// of them, writes, events, dependents, watches, rights and schemas, and what a refusal
// means in words. Each request is made as the user that asks, by the user's own token
// or by impersonation, so that the cluster's RBAC decides. What must not: pages and
// sessions (ui, ui/access), and decisions about who may do what. Packages ui,
// lineage and cli call.
package userclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// User is who asks, and by what right.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
	// Token is the user's own; requests carry it.
	Token string
	// OwnCredentials says that requests are those of the process itself. A user that is neither
	// Own nor has a Token is impersonated.
	OwnCredentials bool
}

// Cluster makes a Client for each user.
type Cluster struct {
	config  *rest.Config
	hangs   *hangDetector
	kinds   *kindCache
	schemas *schemaCache
	clients *clientCache
	serials atomic.Uint64
	// OnWrite, if set, is told of each write once it is answered: that of which user,
	// the verb of RBAC, the object, what it was refused with, and how long it took.
	// Dry runs are not told. It is set before the first use.
	OnWrite func(user, verb string, ref model.Ref, err error, took time.Duration)
}

// New makes a Cluster of the API server that a configuration names; its credentials
// are those of the process.
func New(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // The API server's priority and fairness is the limit.
	config.WarningHandler = rest.NoWarnings{}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.Timeout = 0 // Each request has a limit of its own, and watches have none.
	own, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	process := requester{rest: own, hangs: newHangDetector(own)}
	return &Cluster{config: config, hangs: process.hangs, kinds: newKindCache(process), schemas: newSchemaCache(process), clients: newClientCache()}, nil
}

// As is the Client of a user. It is kept for the next time.
func (c *Cluster) As(u User) (*Client, error) {
	key := u.key()
	if client := c.clients.get(key); client != nil {
		return client, nil
	}
	client, err := rest.UnversionedRESTClientFor(c.configFor(u))
	if err != nil {
		return nil, fmt.Errorf("connect to the API server as %s: %w", u.Name, err)
	}
	return c.clients.put(key, newClient(c, u, client)), nil
}

// Drop drops what is kept of a user, whose token is part of it. Who comes again is
// connected anew.
func (c *Cluster) Drop(u User) { c.clients.drop(u.key()) }

// configFor is the configuration by which requests are those of a user.
func (c *Cluster) configFor(u User) *rest.Config {
	switch {
	case u.OwnCredentials:
		return c.config
	case u.Token != "":
		config := rest.AnonymousClientConfig(c.config)
		config.QPS, config.WarningHandler = c.config.QPS, c.config.WarningHandler
		config.BearerToken = u.Token
		return config
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
	return config
}

// ErrBadToken is wrapped by errors about a token that the API server does not accept.
var ErrBadToken = errors.New("the API server does not accept this token")

// Verify asks the API server whose token this is.
func (c *Cluster) Verify(ctx context.Context, token string) (User, error) {
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return User{}, ErrBadToken // No header could carry it.
	}
	client, err := rest.UnversionedRESTClientFor(c.configFor(User{Token: token}))
	if err != nil {
		return User{}, fmt.Errorf("connect to the API server: %w", err)
	}
	var review authentication.SelfSubjectReview
	const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	err = requester{client, c.hangs}.post(ctx, path, &authentication.SelfSubjectReview{}, &review)
	found := review.Status.UserInfo
	switch {
	case apierrors.IsUnauthorized(err):
		return User{}, fmt.Errorf("%w: %w", ErrBadToken, err)
	case err != nil:
		return User{}, fmt.Errorf("ask who a token belongs to: %w", err)
	case found.Username == "" || found.Username == anonymousUser:
		return User{}, ErrBadToken
	}
	u := User{Name: found.Username, UID: found.UID, Groups: found.Groups, Token: token}
	for name, values := range found.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[name] = values
	}
	return u, nil
}

// anonymousUser is who the API server takes requests without credentials for.
const anonymousUser = "system:anonymous"

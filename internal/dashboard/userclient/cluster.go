// Package userclient makes requests to the API server as a user.
//
// It contains all requests of the dashboard and some of the CLI: kinds, objects, tables, writes, events, dependents,
// watches, permissions and schemas, and readable errors. Each request uses the token of the user or impersonation, so
// that RBAC decides. Pages and sessions belong elsewhere.
package userclient

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// User is a user and how to authenticate.
type User struct {
	Name string
	// Groups are those of an impersonated user.
	Groups []string
	// Token is the bearer token of the user.
	Token string
	// OwnCredentials uses the credentials of the process. A user without them and without a Token is impersonated.
	OwnCredentials bool
}

// Cluster creates a Client for each user.
type Cluster struct {
	config  *rest.Config
	hangs   *hangDetector
	kinds   *kindCache
	schemas *schemaCache

	mu sync.Mutex
	// clients are the Clients of the users seen last, by clientKey, serials their number.
	clients *lru.Cache
	serials uint64

	// OnWrite, if set, is called after each write except dry runs. It must be set before the first use.
	OnWrite func(user, verb string, ref object.Ref, err error, took time.Duration)
}

// New returns a Cluster. The credentials of config are those of the process.
func New(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // The API server limits requests by priority and fairness.
	config.WarningHandler = rest.NoWarnings{}
	config.Timeout = 0 // Each request has its own timeout, and watches have none.
	own, err := request.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	process := requester{rest: own, hangs: &hangDetector{rest: own}}
	return &Cluster{
		config: config, hangs: process.hangs, kinds: &kindCache{requester: process},
		schemas: &schemaCache{requester: process, read: map[string]*definitions{}}, clients: lru.New(maxClients),
	}, nil
}

// As returns the Client of a user, from the cache if possible.
func (c *Cluster) As(u User) (*Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, known := c.clients.Get(u.key()); known {
		return client.(*Client), nil //nolint:forcetypeassert // It holds nothing else.
	}
	transport, err := request.NewClient(c.configFor(u))
	if err != nil {
		return nil, fmt.Errorf("connect to the API server as %s: %w", u.Name, err)
	}
	c.serials++
	client := &Client{
		requester: requester{transport, c.hangs}, cluster: c, user: u, access: cache.NewLRUExpireCache(maxAccessEntries), serial: c.serials,
	}
	c.clients.Add(u.key(), client)
	return client, nil
}

// Drop removes a user and the token from the cache.
func (c *Cluster) Drop(u User) { c.clients.Remove(u.key()) }

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
	config.Impersonate = rest.ImpersonationConfig{UserName: u.Name, Groups: u.Groups}
	return config
}

// ErrBadToken is wrapped by errors about invalid tokens.
var ErrBadToken = errors.New("the API server does not accept this token")

// Verify returns the user of a token.
func (c *Cluster) Verify(ctx context.Context, token string) (User, error) {
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return User{}, ErrBadToken // It is not a valid header value.
	}
	client, err := request.NewClient(c.configFor(User{Token: token}))
	if err != nil {
		return User{}, fmt.Errorf("connect to the API server: %w", err)
	}
	name, err := requester{client, c.hangs}.Username(ctx)
	switch {
	case apierrors.IsUnauthorized(err):
		return User{}, fmt.Errorf("%w: %w", ErrBadToken, err)
	case err != nil:
		return User{}, fmt.Errorf("verify token: %w", err)
	case name == "" || name == anonymousUser:
		return User{}, ErrBadToken
	}
	return User{Name: name, Token: token}, nil
}

// Username returns the name of the user, as the API server authenticates it.
func (r requester) Username(ctx context.Context) (string, error) {
	var review authentication.SelfSubjectReview
	const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	err := r.post(ctx, path, &authentication.SelfSubjectReview{}, &review)
	return review.Status.UserInfo.Username, err
}

const anonymousUser = "system:anonymous"

const maxClients = 256

// clientKey identifies a user. It is a digest, since it includes the token.
type clientKey [sha256.Size]byte

func (u User) key() clientKey {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %v", u.Name, u.Groups, u.Token, u.OwnCredentials))
}

// Client is the API server as one user.
type Client struct {
	requester
	cluster *Cluster
	user    User
	// access has the accessResults of accessKeys.
	access *cache.LRUExpireCache
	serial uint64
}

// Serial returns a number that is unique in the process. Caches use it as a key without keeping the token in memory.
func (c *Client) Serial() uint64 { return c.serial }

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
	"slices"
	"strings"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/lru"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
	"github.com/setpoint-dev/setpoint/internal/served"
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

// NewCluster returns a Cluster. The credentials of config are those of the process.
func NewCluster(config *rest.Config) (*Cluster, error) {
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

// Client returns the Client of a user, from the cache if possible.
func (c *Cluster) Client(u User) (*Client, error) {
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

// IsDown reports whether the API server does not respond at all.
func (c *Cluster) IsDown(ctx context.Context) bool { return c.hangs.check(ctx) != nil }

// Username returns the name of the user, as the API server authenticates it.
func (r requester) Username(ctx context.Context) (string, error) {
	var review authentication.SelfSubjectReview
	const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	err := r.post(ctx, path, &authentication.SelfSubjectReview{}, &review)
	return review.Status.UserInfo.Username, err
}

const anonymousUser = "system:anonymous"

// maxClients is how many Clients are kept, maxAccessEntries how many results of access reviews in each.
const (
	maxClients       = 256
	maxAccessEntries = 4096
)

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

// FindKind returns a kind by a name that kubectl accepts: "pods", "deployments.apps", "deployments.v1.apps", a singular, a
// kind or a short name. It prefers the version that the API server prefers. If several groups serve the name, the error
// is an AmbiguousError; for an unknown name it wraps failure.ErrNotFound.
func (c *Client) FindKind(ctx context.Context, name string) (object.Kind, error) {
	return c.cluster.kinds.find(ctx, name, unknownKindMaxAge)
}

// FindCurrentKind is FindKind for the page that a kind names: one that was created a moment ago is known.
func (c *Client) FindCurrentKind(ctx context.Context, name string) (object.Kind, error) {
	return c.cluster.kinds.find(ctx, name, 0)
}

// Kinds returns all kinds that can be listed.
func (c *Client) Kinds(ctx context.Context) ([]object.Kind, error) {
	all, err := c.cluster.kinds.list(ctx, listedKindsMaxAge)
	listed := lists.Filter(all, func(s served.Kind) bool { return slices.Contains(s.Verbs, "list") })
	return lists.Map(listed, func(s served.Kind) object.Kind { return s.Kind }), err
}

// Schema returns the schema of a kind and the definitions that it references, by the names
// after "#/components/schemas/". Both are shared and must not be modified. The error of a kind
// without a schema wraps failure.ErrNotFound.
func (c *Client) Schema(ctx context.Context, kind object.Kind) (*spec.Schema, map[string]*spec.Schema, error) {
	found, err := c.cluster.schemas.find(ctx, kind)
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema of %s: %w", describe(kind, "", ""), err)
	}
	schema := found.byKind[kind.Kind]
	if schema == nil {
		return nil, nil, fmt.Errorf("%s has no schema: %w", describe(kind, "", ""), failure.ErrNotFound)
	}
	return schema, found.byName, nil
}

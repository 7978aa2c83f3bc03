package userclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	discovery "k8s.io/api/apidiscovery/v2"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// mediaTypeDiscovery requests aggregated discovery.
const mediaTypeDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

// kindsMaxAge is how long discovery is cached, unknownKindMaxAge how long if a kind is unknown:
// names that no kind has cost one discovery in that time for all users together.
const (
	kindsMaxAge       = 5 * time.Minute
	unknownKindMaxAge = 2 * time.Second
)

// kindCache caches the served kinds, which are the same for all users.
type kindCache struct {
	requester
	group singleflight.Group

	mu        sync.Mutex
	fetchedAt time.Time
	all       []servedKind
}

// servedKind is a kind and its names.
type servedKind struct {
	object.Kind
	singular   string
	shortNames []string
	verbs      []string
}

func newKindCache(r requester) *kindCache { return &kindCache{requester: r} }

// Kind returns a kind by a name that kubectl accepts: "pods", "deployments.apps",
// "deployments.v1.apps", a singular, a kind or a short name. It prefers the version that the
// API server prefers. If several groups serve the name, the error is an AmbiguousError; for an
// unknown name it wraps failure.ErrNotFound.
func (c *Client) Kind(ctx context.Context, name string) (object.Kind, error) {
	return c.cluster.kinds.find(ctx, name)
}

// CurrentKind is Kind for the page that a kind names. Discovery that began before the call may
// lack a kind that was created since. So a kind is unknown only after a later discovery, for
// which the call waits up to unknownKindMaxAge.
func (c *Client) CurrentKind(ctx context.Context, name string) (object.Kind, error) {
	return c.cluster.kinds.findCurrent(ctx, name)
}

// Kinds returns all kinds that can be listed.
func (c *Client) Kinds(ctx context.Context) ([]object.Kind, error) {
	all, err := c.cluster.kinds.list(ctx, unknownKindMaxAge)
	var found []object.Kind
	for _, s := range all {
		if slices.Contains(s.verbs, "list") {
			found = append(found, s.Kind)
		}
	}
	return found, err
}

func (k *kindCache) find(ctx context.Context, name string) (object.Kind, error) {
	for _, limit := range []time.Duration{kindsMaxAge, unknownKindMaxAge} {
		all, err := k.list(ctx, limit)
		switch matches := matchKinds(all, name); {
		case len(matches) > 1:
			return object.Kind{}, &AmbiguousError{Word: name, Candidates: fullNames(matches)}
		case len(matches) == 1:
			return matches[0].Kind, matches[0].checkReadable()
		}
		if err != nil {
			return object.Kind{}, fmt.Errorf("find kind %s: %w", name, err)
		}
	}
	return object.Kind{}, fmt.Errorf("the API server serves no kind %q: %w", name, failure.ErrNotFound)
}

// findCurrent is find, but never reports a kind as unknown by discovery that began before the call.
func (k *kindCache) findCurrent(ctx context.Context, name string) (object.Kind, error) {
	began := time.Now()
	kind, err := k.find(ctx, name)
	fetchedAt := k.lastFetch()
	if !errors.Is(err, failure.ErrNotFound) || !fetchedAt.Before(began) {
		return kind, err
	}
	if !sleep(ctx, time.Until(fetchedAt.Add(unknownKindMaxAge))) {
		return object.Kind{}, fmt.Errorf("find kind %s: %w", name, ctx.Err())
	}
	return k.find(ctx, name)
}

func (k *kindCache) lastFetch() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fetchedAt
}

// list returns all kinds, at most limit old. If the API server is unreachable, it returns the
// cached ones with the error. Concurrent callers share a request.
func (k *kindCache) list(ctx context.Context, limit time.Duration) ([]servedKind, error) {
	if all, fresh := k.cached(limit); fresh {
		return all, nil
	}
	err := shareCall(ctx, &k.group, "kinds", k.fetch)
	all, _ := k.cached(0)
	return all, err
}

func (k *kindCache) cached(limit time.Duration) (all []servedKind, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all, k.all != nil && time.Since(k.fetchedAt) < limit
}

func (k *kindCache) fetch(ctx context.Context) error {
	began := time.Now()
	var all []servedKind
	for _, path := range []string{"/api", "/apis"} {
		var groups discovery.APIGroupDiscoveryList
		if err := k.get(ctx, mediaTypeDiscovery, k.rest.Get().AbsPath(path), &groups); err != nil {
			return fmt.Errorf("discover kinds: %w", err)
		}
		for i := range groups.Items {
			all = append(all, kindsInGroup(&groups.Items[i])...)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all, k.fetchedAt = all, began
	return nil
}

func kindsInGroup(group *discovery.APIGroupDiscovery) []servedKind {
	var all []servedKind
	for _, version := range group.Versions {
		for _, r := range version.Resources {
			s := servedKind{singular: r.SingularResource, shortNames: r.ShortNames, verbs: r.Verbs}
			s.Group, s.Version, s.Plural = group.Name, version.Version, r.Resource
			s.Namespaced = r.Scope == discovery.ScopeNamespace
			if r.ResponseKind != nil {
				s.Kind.Kind = r.ResponseKind.Kind
			}
			all = append(all, s)
		}
	}
	return all
}

// checkReadable returns an error for kinds that are not stored, such as reviews.
func (s *servedKind) checkReadable() error {
	if !s.readable() {
		return fmt.Errorf("the API server does not store %s: it supports only %s: %w", s.Plural, strings.Join(s.verbs, ", "), failure.ErrNotFound)
	}
	return nil
}

func (s *servedKind) readable() bool {
	return len(s.verbs) == 0 || slices.Contains(s.verbs, "get") || slices.Contains(s.verbs, "list")
}

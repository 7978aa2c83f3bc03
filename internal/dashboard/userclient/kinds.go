package userclient

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	discovery "k8s.io/api/apidiscovery/v2"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// mediaTypeDiscovery asks for all kinds in one answer.
const mediaTypeDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

// kindsMaxAge is how long it is believed which kinds there are; unknownKindMaxAge is how soon
// they are asked for again when one of them is not known.
const (
	kindsMaxAge       = 5 * time.Minute
	unknownKindMaxAge = 2 * time.Second
)

// kindCache are those that are served. They are the same for all users: the API server
// tells them to everybody whom it knows.
type kindCache struct {
	requester
	group singleflight.Group

	mu        sync.Mutex
	fetchedAt time.Time
	all       []servedKind
}

// servedKind is one kind, and by what it may be called.
type servedKind struct {
	model.Kind
	singular   string
	shortNames []string
	verbs      []string
}

func newKindCache(r requester) *kindCache { return &kindCache{requester: r} }

// Kind finds a kind by a word that kubectl takes for it: "pods", "deployments.apps",
// "deployments.v1.apps", and also by its kind, its singular or a short name. Of several
// versions the API server's preferred one is meant. Where several groups serve the word,
// the error is an AmbiguousError. That of a word that means none wraps inspect.ErrNotFound.
func (c *Client) Kind(ctx context.Context, name string) (model.Kind, error) {
	return c.cluster.kinds.find(ctx, name)
}

// Kinds are all kinds whose objects can be listed, in the order of the API server.
func (c *Client) Kinds(ctx context.Context) ([]model.Kind, error) {
	all, err := c.cluster.kinds.list(ctx, unknownKindMaxAge)
	var found []model.Kind
	for _, s := range all {
		if slices.Contains(s.verbs, "list") {
			found = append(found, s.Kind)
		}
	}
	return found, err
}

func (k *kindCache) find(ctx context.Context, name string) (model.Kind, error) {
	for _, limit := range []time.Duration{kindsMaxAge, unknownKindMaxAge} {
		all, err := k.list(ctx, limit)
		switch matches := matchKinds(all, name); {
		case len(matches) > 1:
			return model.Kind{}, &AmbiguousError{Word: name, Candidates: fullNames(matches)}
		case len(matches) == 1:
			return matches[0].Kind, matches[0].checkReadable()
		}
		if err != nil {
			return model.Kind{}, fmt.Errorf("look for the kind %s: %w", name, err)
		}
	}
	return model.Kind{}, fmt.Errorf("the API server serves no kind %q: %w", name, model.ErrNotFound)
}

// list are all kinds as they were at most so long ago. Where the API server does not
// answer, those known before are returned with the error. All who wait at the same time
// wait for the same answer.
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
			return fmt.Errorf("ask which kinds there are: %w", err)
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

// checkReadable is an error for a kind of which no object can be read, such as a review: the API
// server answers what is sent, and keeps nothing.
func (s *servedKind) checkReadable() error {
	if !s.readable() {
		return fmt.Errorf("the API server stores no %s: it only takes %s: %w", s.Plural, strings.Join(s.verbs, ", "), model.ErrNotFound)
	}
	return nil
}

func (s *servedKind) readable() bool {
	return len(s.verbs) == 0 || slices.Contains(s.verbs, "get") || slices.Contains(s.verbs, "list")
}

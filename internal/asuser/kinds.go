package asuser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	discovery "k8s.io/api/apidiscovery/v2"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// asDiscovery asks for all kinds in one answer.
const asDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

// kindsLimit is how long it is believed which kinds there are; missLimit is how soon
// they are asked for again when one of them is not known.
const (
	kindsLimit = 5 * time.Minute
	missLimit  = 2 * time.Second
)

// kinds are those that are served. They are the same for all users: the API server
// tells them to everybody whom it knows.
type kinds struct {
	requester
	asking singleflight.Group

	mu    sync.Mutex
	asked time.Time
	all   []served
}

// served is one kind, and by what it may be called.
type served struct {
	inspect.Kind
	singular string
	short    []string
	verbs    []string
}

func newKinds(r requester) *kinds { return &kinds{requester: r} }

// Kind finds a kind by a word that kubectl takes for it: "pods", "deployments.apps",
// "deployments.v1.apps", and also by its kind, its singular or a short name. Of several
// versions the API server's preferred one is meant. Where several groups serve the word,
// the error is an AmbiguousError. That of a word that means none wraps inspect.ErrNotFound.
func (c *Client) Kind(ctx context.Context, name string) (inspect.Kind, error) {
	return c.cluster.kinds.find(ctx, name)
}

// Kinds are all kinds whose objects can be listed, in the order of the API server.
func (c *Client) Kinds(ctx context.Context) ([]inspect.Kind, error) {
	all, err := c.cluster.kinds.list(ctx, missLimit)
	var found []inspect.Kind
	for _, s := range all {
		if slices.Contains(s.verbs, "list") {
			found = append(found, s.Kind)
		}
	}
	return found, err
}

func (k *kinds) find(ctx context.Context, name string) (inspect.Kind, error) {
	for _, limit := range []time.Duration{kindsLimit, missLimit} {
		all, err := k.list(ctx, limit)
		switch meant := meant(all, name); {
		case len(meant) > 1:
			return inspect.Kind{}, &AmbiguousError{Word: name, Names: fullNames(meant)}
		case len(meant) == 1:
			return meant[0].Kind, meant[0].stored()
		}
		if err != nil {
			return inspect.Kind{}, fmt.Errorf("look for the kind %s: %w", name, err)
		}
	}
	return inspect.Kind{}, fmt.Errorf("the API server serves no kind %q: %w", name, inspect.ErrNotFound)
}

// list are all kinds as they were at most so long ago. Where the API server does not
// answer, those known before are returned with the error. All who wait at the same time
// wait for the same answer.
func (k *kinds) list(ctx context.Context, limit time.Duration) ([]served, error) {
	if all, fresh := k.known(limit); fresh {
		return all, nil
	}
	err := together(ctx, &k.asking, "kinds", k.ask)
	all, _ := k.known(0)
	return all, err
}

func (k *kinds) known(limit time.Duration) (all []served, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all, k.all != nil && time.Since(k.asked) < limit
}

func (k *kinds) ask(ctx context.Context) error {
	began := time.Now()
	var all []served
	for _, path := range []string{"/api", "/apis"} {
		var groups discovery.APIGroupDiscoveryList
		if err := k.get(ctx, asDiscovery, k.rest.Get().AbsPath(path), &groups); err != nil {
			return fmt.Errorf("ask which kinds there are: %w", err)
		}
		for i := range groups.Items {
			all = append(all, kindsOf(&groups.Items[i])...)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all, k.asked = all, began
	return nil
}

func kindsOf(group *discovery.APIGroupDiscovery) []served {
	var all []served
	for _, version := range group.Versions {
		for _, r := range version.Resources {
			s := served{singular: r.SingularResource, short: r.ShortNames, verbs: r.Verbs}
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

// stored is an error for a kind of which no object can be read, such as a review: the API
// server answers what is sent, and keeps nothing.
func (s *served) stored() error {
	if !s.readable() {
		return fmt.Errorf("the API server stores no %s: it only takes %s: %w", s.Plural, strings.Join(s.verbs, ", "), inspect.ErrNotFound)
	}
	return nil
}

func (s *served) readable() bool {
	return len(s.verbs) == 0 || slices.Contains(s.verbs, "get") || slices.Contains(s.verbs, "list")
}

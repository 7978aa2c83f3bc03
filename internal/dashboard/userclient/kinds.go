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

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// kindsMaxAge is how long discovery is cached, listedKindsMaxAge how long in lists, unknownKindMaxAge how long if a kind is unknown:
// names that no kind has cost one discovery in that time for all users together.
const (
	kindsMaxAge       = 5 * time.Minute
	unknownKindMaxAge = 2 * time.Second
	listedKindsMaxAge = 10 * time.Second
)

// kindCache caches the served kinds, which are the same for all users.
type kindCache struct {
	requester
	group singleflight.Group

	mu        sync.Mutex
	fetchedAt time.Time
	all       []served.Kind
}

// find returns the kind of a name, which is unknown only to discovery that is at most unknownMaxAge old.
func (k *kindCache) find(ctx context.Context, name string, unknownMaxAge time.Duration) (object.Kind, error) {
	for _, limit := range []time.Duration{kindsMaxAge, unknownMaxAge} {
		all, err := k.list(ctx, limit)
		switch matches := matchKinds(all, name); {
		case len(matches) > 1:
			return object.Kind{}, &AmbiguousError{Word: name, Candidates: served.FullNames(matches)}
		case len(matches) == 1:
			if k := &matches[0]; !k.Readable() { // It is not stored, such as a review.
				return k.Kind, fmt.Errorf("the API server does not store %s: it supports only %s: %w",
					k.Plural, strings.Join(k.Verbs, ", "), failure.ErrNotFound)
			}
			return matches[0].Kind, nil
		}
		if err != nil {
			return object.Kind{}, fmt.Errorf("find kind %s: %w", name, err)
		}
	}
	return object.Kind{}, fmt.Errorf("the API server serves no kind %q: %w", name, failure.ErrNotFound)
}

// list returns all kinds, at most limit old. If the API server is unreachable, it returns the
// cached ones with the error. Concurrent callers share a request.
func (k *kindCache) list(ctx context.Context, limit time.Duration) ([]served.Kind, error) {
	if all, fresh := k.cached(limit); fresh {
		return all, nil
	}
	// The request has a goroutine of its own, so that a canceled caller leaves alone, and a panic would end the process.
	shared := k.group.DoChan("kinds", func() (any, error) {
		return nil, failure.Recover("decode API server response", func() error {
			// Another shared call may have ended since.
			if _, fresh := k.cached(limit); fresh {
				return nil
			}
			return k.fetch(context.WithoutCancel(ctx))
		})
	})
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case result := <-shared:
		err = result.Err
	}
	all, _ := k.cached(0)
	return all, err
}

func (k *kindCache) cached(limit time.Duration) (all []served.Kind, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all, k.all != nil && time.Since(k.fetchedAt) < limit
}

func (k *kindCache) fetch(ctx context.Context) error {
	began := time.Now()
	var all []served.Kind
	for _, path := range []string{"/api", "/apis"} {
		var groups discovery.APIGroupDiscoveryList
		if err := k.get(ctx, served.MediaType, k.rest.Get().AbsPath(path), &groups); err != nil {
			return fmt.Errorf("discover kinds: %w", err)
		}
		all = append(all, served.KindsOf(&groups)...)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all, k.fetchedAt = all, began
	return nil
}

// AmbiguousError means that several groups serve a resource name. Unlike kubectl, Setpoint does not choose one.
type AmbiguousError struct {
	// Word is the name, Candidates are the full names that it may mean.
	Word       string
	Candidates []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q is ambiguous: use one of %s", e.Word, strings.Join(e.Candidates, ", "))
}

// matchKinds returns the kinds that a name may mean, in their preferred versions and in the order of the API server's
// groups. Full names match before short names, whole groups before prefixes, and readable kinds before others.
//
// Without a group, the core group wins, since it has no name to write.
func matchKinds(all []served.Kind, word string) []served.Kind {
	name, group, qualified := strings.Cut(word, ".")
	groups := []func(*served.Kind) bool{
		func(s *served.Kind) bool { return s.Group == "" },
		func(*served.Kind) bool { return true },
	}
	if qualified {
		groups = []func(*served.Kind) bool{
			func(s *served.Kind) bool { return s.Group != "" && s.Group == group || s.Version+"."+s.Group == group },
			func(s *served.Kind) bool { return group != "" && strings.HasPrefix(s.Group, group) },
		}
	}
	names := []func(*served.Kind) bool{
		func(s *served.Kind) bool {
			return strings.EqualFold(s.Plural, name) || strings.EqualFold(s.Singular, name) || strings.EqualFold(s.Kind.Kind, name)
		},
		func(s *served.Kind) bool { return slices.Contains(s.ShortNames, name) },
	}
	for _, in := range groups {
		for _, named := range names {
			if found := preferredKinds(all, func(s *served.Kind) bool { return in(s) && named(s) }); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// preferredKinds returns the matching kinds, one version each. Readable kinds win.
func preferredKinds(all []served.Kind, is func(*served.Kind) bool) []served.Kind {
	found := served.Preferred(all, is)
	if slices.ContainsFunc(found, func(k served.Kind) bool { return k.Readable() }) {
		found = slices.DeleteFunc(found, func(k served.Kind) bool { return !k.Readable() })
	}
	return found
}

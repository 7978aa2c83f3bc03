// Package credential reads a webhook's credentials from Secrets and ConfigMaps and
// follows their rotation.
//
// Spec holds the settings independently of the API group, Source watches exactly the
// objects that a Spec refers to. The package sends no other requests and keeps secret
// values out of errors and logs. Compile validates a Spec and opens a Source per
// webhook; the webhook reads it on every call.
package credential

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Source provides the current credentials of a Spec.
type Source struct {
	spec    Spec
	changed func()
	// mu guards the creation of views, whose handlers may run at once, and reads from
	// them.
	mu    sync.Mutex
	views map[object.Ref]*cache.View

	current atomic.Pointer[loaded]
	// served reports whether Current has returned a result.
	served atomic.Bool
}

// Open starts watching the objects of a valid spec, which need not exist yet. It calls
// changed, which may be nil and must be fast, whenever the result of Current changes, so
// that the caller can retry failed calls.
//
// The objects are read as a user, which is impersonated; empty for Setpoint itself.
func Open(s *cache.Cache, spec Spec, user string, changed func()) *Source {
	if changed == nil {
		changed = func() {}
	}
	source := &Source{spec: spec, changed: changed, views: map[object.Ref]*cache.View{}}
	source.mu.Lock()
	defer source.mu.Unlock()
	for _, h := range spec.Objects() {
		source.views[h] = s.Watch(selection(h, user), func(cache.Event) { source.objectChanged() })
	}
	source.current.Store(spec.load(source.read, nil))
	return source
}

// Current returns the current credentials. The pointer stays the same until they change,
// as does TLS until the certificates change. Current waits for the first read of all
// objects until ctx is done. Once reading one of them is forbidden, it returns the error.
func (s *Source) Current(ctx context.Context) (*webhook.Credentials, error) {
	if s.current.Load().err != nil {
		if err := s.waitUntilRead(ctx); err != nil {
			s.served.Store(true)
			return nil, err
		}
	}
	// Store first: a change after the load must then call changed.
	s.served.Store(true)
	if err := s.forbidden(); err != nil {
		return nil, err
	}
	now := s.current.Load()
	return now.credentials, now.err
}

// forbidden returns an error if an object may no longer be read.
func (s *Source) forbidden() error {
	for h, view := range s.views {
		if err := view.Err(); apierrors.IsForbidden(err) {
			return fmt.Errorf("read %s: %w", h, err)
		}
	}
	return nil
}

// Close stops the watches. Current keeps returning the last result.
func (s *Source) Close() {
	for _, view := range s.views {
		view.Close()
	}
}

// waitUntilRead waits until every object was read or failed to be.
func (s *Source) waitUntilRead(ctx context.Context) error {
	for h, view := range s.views {
		select {
		case <-view.ReadyOrFailed():
		case <-ctx.Done():
			return fmt.Errorf("%s not read yet", h)
		}
		if err := view.Err(); err != nil && !view.Synced() {
			return fmt.Errorf("read %s: %w", h, err)
		}
	}
	return nil
}

func (s *Source) objectChanged() {
	if s.refresh() && s.served.Load() {
		s.changed()
	}
}

// refresh reloads the credentials and reports whether they changed.
func (s *Source) refresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current.Load()
	now := s.spec.load(s.read, before)
	s.current.Store(now)
	return now != before
}

// read returns the value of a key.
func (s *Source) read(k valueKey) ([]byte, error) {
	o := s.views[k.Ref].Get(k.Namespace, k.Name)
	if o == nil {
		return nil, fmt.Errorf("%s not found; create it or set another name in %s", k.Ref, k.field)
	}
	value, err := k.valueIn(o)
	switch {
	case err == nil && value == nil:
		return nil, fmt.Errorf("%s has no key %s; add it or set another key in %s", k.Ref, k.name, k.field)
	case err == nil && len(value) == 0:
		err = errors.New("is empty")
	}
	if err != nil {
		return nil, k.wrap(err)
	}
	return value, nil
}

// selection selects the object of a reference, as a user.
func selection(ref object.Ref, user string) cache.Selection {
	resource := object.Secrets
	if ref.Kind == object.KindOf(object.ConfigMaps) {
		resource = object.ConfigMaps
	}
	return cache.Selection{Resource: resource, Namespace: ref.Namespace, Name: ref.Name, User: user}
}

// Package credential reads what a webhook is asked with from the Secrets and
// ConfigMaps that its settings name, and follows their changes.
//
// Here live the settings in a neutral form (Spec), the reading of certificates
// and tokens, and the watch over exactly the objects named (Source). What must
// not: any request but these watches, and a secret value in an error or a log.
// Compile checks a Spec and opens a Source for each webhook that has one; the
// webhook asks it at every call.
package credential

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Source gives the credentials that a spec names as they are now.
type Source struct {
	spec    Spec
	changed func()
	// mu is held while the views are made, which may tell their handlers
	// at once, and while what they hold is read.
	mu    sync.Mutex
	views map[objectRef]*cache.View

	current atomic.Pointer[loaded]
	// served says that somebody has acted on a reading.
	served atomic.Bool
}

// Open starts to watch the objects that a valid spec names. Nothing has to be
// there yet. The function changed, which may be nil and must be quick, is told
// whenever Current says something else than it said before: failed calls are
// worth another try then.
func Open(s *cache.Cache, spec Spec, changed func()) *Source {
	if changed == nil {
		changed = func() {}
	}
	source := &Source{spec: spec, changed: changed, views: map[objectRef]*cache.View{}}
	source.mu.Lock()
	defer source.mu.Unlock()
	for _, h := range spec.objects() {
		if source.views[h] == nil {
			source.views[h] = s.Watch(h.selection(), func(cache.Event) { source.objectChanged() })
		}
	}
	source.current.Store(spec.load(source, nil))
	return source
}

// Current is what to ask with. The pointer stays the same while nothing changes,
// and that of its TLS while the certificates do not. It waits until the objects
// have been looked for once, as long as ctx allows.
func (s *Source) Current(ctx context.Context) (*webhook.Credentials, error) {
	if s.current.Load().err != nil {
		if err := s.waitUntilRead(ctx); err != nil {
			s.served.Store(true)
			return nil, err
		}
	}
	// In this order: who reads too early is told of the change.
	s.served.Store(true)
	now := s.current.Load()
	return now.credentials, now.err
}

// Close ends the watches. What was read last stays current.
func (s *Source) Close() {
	for _, view := range s.views {
		view.Close()
	}
}

// waitUntilRead waits until every object has been looked for, or cannot be.
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

// objectChanged takes up a change of an object.
func (s *Source) objectChanged() {
	if s.refresh() && s.served.Load() {
		s.changed()
	}
}

// refresh says whether the objects hold something new.
func (s *Source) refresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current.Load()
	now := s.spec.load(s, before)
	s.current.Store(now)
	return now != before
}

// value is what a key of an object holds.
func (s *Source) value(k valueKey) ([]byte, error) {
	o := s.views[k.objectRef].Get(k.Namespace, k.Name)
	if o == nil {
		return nil, fmt.Errorf("%s not found; create it or set another name in %s", k.objectRef, k.field)
	}
	value, err := k.valueIn(o)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: key %s: %w", k.objectRef, k.name, err)
	case value == nil:
		return nil, fmt.Errorf("%s has no key %s; add it or set another key in %s", k.objectRef, k.name, k.field)
	case len(value) == 0:
		return nil, fmt.Errorf("%s: key %s is empty", k.objectRef, k.name)
	}
	return value, nil
}

// objectRef is an object that holds values.
type objectRef struct {
	kind string
	Ref
}

const (
	secret    = "Secret"
	configMap = "ConfigMap"
)

// String is "Secret ops/hook-ca".
func (h objectRef) String() string { return h.kind + " " + h.Namespace + "/" + h.Name }

func (h objectRef) selection() cache.Selection {
	resource := object.Resource{Version: "v1", Plural: "secrets", Kind: secret, Namespaced: true}
	if h.kind == configMap {
		resource.Plural, resource.Kind = "configmaps", configMap
	}
	return cache.Selection{Resource: resource, Namespace: h.Namespace, Name: h.Name}
}

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

	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// Source gives the credentials that a spec names as they are now.
type Source struct {
	spec    Spec
	changed func()
	// opening is held while the views are made, which may tell their handlers
	// at once, and while what they hold is read.
	opening sync.Mutex
	views   map[holder]*store.View

	now atomic.Pointer[reading]
	// told says that somebody has acted on a reading.
	told atomic.Bool
}

// Open starts to watch the objects that a valid spec names. Nothing has to be
// there yet. The function changed, which may be nil and must be quick, is told
// whenever Current says something else than it said before: failed calls are
// worth another try then.
func Open(s *store.Store, spec Spec, changed func()) *Source {
	if changed == nil {
		changed = func() {}
	}
	source := &Source{spec: spec, changed: changed, views: map[holder]*store.View{}}
	source.opening.Lock()
	defer source.opening.Unlock()
	for _, h := range spec.holders() {
		if source.views[h] == nil {
			source.views[h] = s.Watch(h.selection(), func(store.Event) { source.reread() })
		}
	}
	source.now.Store(spec.read(source, nil))
	return source
}

// Current is what to ask with. The pointer stays the same while nothing changes,
// and that of its TLS while the certificates do not. It waits until the objects
// have been looked for once, as long as ctx allows.
func (s *Source) Current(ctx context.Context) (*webhook.Credentials, error) {
	if s.now.Load().err != nil {
		if err := s.settle(ctx); err != nil {
			s.told.Store(true)
			return nil, err
		}
	}
	// In this order: who reads too early is told of the change.
	s.told.Store(true)
	now := s.now.Load()
	return now.credentials, now.err
}

// Close ends the watches. What was read last stays current.
func (s *Source) Close() {
	for _, view := range s.views {
		view.Close()
	}
}

// settle waits until every object has been looked for, or cannot be.
func (s *Source) settle(ctx context.Context) error {
	for h, view := range s.views {
		select {
		case <-view.Settled():
		case <-ctx.Done():
			return fmt.Errorf("%s has not been read yet", h)
		}
		if err := view.Err(); err != nil && !view.Synced() {
			return fmt.Errorf("read %s: %w", h, err)
		}
	}
	return nil
}

// reread takes up a change of an object.
func (s *Source) reread() {
	if s.refresh() && s.told.Load() {
		s.changed()
	}
}

// refresh says whether the objects hold something new.
func (s *Source) refresh() bool {
	s.opening.Lock()
	defer s.opening.Unlock()
	before := s.now.Load()
	now := s.spec.read(s, before)
	s.now.Store(now)
	return now != before
}

// value is what a key of an object holds.
func (s *Source) value(k key) ([]byte, error) {
	o := s.views[k.holder].Get(k.Namespace, k.Name)
	if o == nil {
		return nil, fmt.Errorf("%s not found; create it, or name another in %s", k.holder, k.field)
	}
	value, err := k.of(o)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: key %s: %w", k.holder, k.name, err)
	case value == nil:
		return nil, fmt.Errorf("%s has no key %s; add it, or name another in %s", k.holder, k.name, k.field)
	case len(value) == 0:
		return nil, fmt.Errorf("%s: key %s is empty", k.holder, k.name)
	}
	return value, nil
}

// holder is an object that holds values.
type holder struct {
	kind string
	Ref
}

const (
	secret    = "Secret"
	configMap = "ConfigMap"
)

// String is "Secret ops/hook-ca".
func (h holder) String() string { return h.kind + " " + h.Namespace + "/" + h.Name }

func (h holder) selection() store.Selection {
	resource := object.Resource{Version: "v1", Plural: "secrets", Kind: secret, Namespaced: true}
	if h.kind == configMap {
		resource.Plural, resource.Kind = "configmaps", configMap
	}
	return store.Selection{Resource: resource, Namespace: h.Namespace, Name: h.Name}
}

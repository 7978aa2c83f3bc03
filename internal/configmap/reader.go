// Package configmap reads ConfigMaps with the code of inline hooks, and reports their changes.
//
// It does not know what code is: compile takes it from the ConfigMaps, and decides whether it can be
// used. The manager has a Reader for each controller, and compiles the controller again when a
// ConfigMap changes.
package configmap

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// readTimeout limits the first read of a ConfigMap.
const readTimeout = 10 * time.Second

// Reader reads the ConfigMaps of one controller. It watches them from the first read on.
type Reader struct {
	store   *cache.Cache
	changed func()
	// files stand in for stored ConfigMaps.
	files []*object.Object

	mu      sync.Mutex
	watches map[key]*watch
}

// key is a ConfigMap as a user sees it.
type key struct {
	user string
	ref  object.Ref
}

// watch is the watch of one ConfigMap.
type watch struct {
	view *cache.View
	// served reports whether Read has returned a result.
	served atomic.Bool
	// used is whether it was read since the latest Begin. read is what the latest Read returned,
	// accepted what it was at the latest Accept.
	used           bool
	read, accepted *object.Object
}

// NewReader returns a Reader that calls changed, which must be fast, when a ConfigMap is no longer
// what Read has returned.
func NewReader(store *cache.Cache, changed func()) *Reader {
	return &Reader{store: store, changed: changed, watches: map[key]*watch{}}
}

// NewDryRunReader returns a Reader for one pass. ConfigMaps in files stand in for stored ones.
func NewDryRunReader(store *cache.Cache, files ...*object.Object) *Reader {
	r := NewReader(store, func() {})
	r.files = files
	return r
}

// Begin starts a pass over the ConfigMaps that are in use.
func (r *Reader) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.watches {
		w.used = false
	}
}

// Read returns a ConfigMap as a user sees it, empty for Setpoint itself; nil if it does not exist. While the
// API server cannot be reached, it returns what was read before; once reading is forbidden, the error.
func (r *Reader) Read(ctx context.Context, user string, ref object.Ref) (*object.Object, error) {
	for _, file := range r.files {
		if file.Ref().Identity() == ref.Identity() {
			return file, nil
		}
	}
	w := r.watch(key{user, ref})
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	select {
	case <-w.view.ReadyOrFailed():
	case <-ctx.Done():
		return nil, fmt.Errorf("read %s: %w", ref, context.Cause(ctx))
	}
	// Store first: a change after the next lines must then be reported.
	w.served.Store(true)
	if err := w.view.Err(); err != nil && (!w.view.Synced() || apierrors.IsForbidden(err)) {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.read = w.view.Get(ref.Namespace, ref.Name)
	return w.read, nil
}

// watch opens the watch of a ConfigMap, unless it is open.
func (r *Reader) watch(of key) *watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.watches[of]
	if w == nil {
		w = &watch{}
		selection := cache.Selection{Resource: object.ConfigMaps, Namespace: of.ref.Namespace, Name: of.ref.Name, User: of.user}
		w.view = r.store.Watch(selection, func(cache.Event) {
			if w.served.Load() {
				r.changed()
			}
		})
		r.watches[of] = w
	}
	w.used = true
	return w
}

// Accept remembers the ConfigMaps that were read since Begin, and stops to watch the others.
func (r *Reader) Accept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, w := range r.watches {
		if !w.used {
			w.view.Close()
			delete(r.watches, of)
			continue
		}
		w.accepted = w.read
	}
}

// Accepted returns a ConfigMap as of the latest Accept; nil if there is none.
func (r *Reader) Accepted(user string, ref object.Ref) *object.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watches[key{user, ref}]; w != nil {
		return w.accepted
	}
	return nil
}

// Close stops all watches.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, w := range r.watches {
		w.view.Close()
		delete(r.watches, of)
	}
}

package controllers

import (
	"context"
	"errors"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// crdWatches are the watches of the CRDs that controllers of a Go program need, by their names. A program may be
// allowed to watch only its own CRDs.
type crdWatches struct {
	store   *cache.Cache
	changed func(cache.Event)

	mu    sync.Mutex
	views map[string]*cache.View
}

// watch watches one CRD, which need not exist.
func (w *crdWatches) watch(definition string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.views[definition] == nil {
		w.views[definition] = w.store.Watch(cache.Selection{Resource: crds.Resource, Name: definition, Metadata: true}, w.changed)
	}
}

// environment returns an environment that watches the CRDs of resolved kinds.
func (w *crdWatches) environment(env compile.Environment) compile.Environment {
	resolve, resolveKind := env.Resolve, env.ResolveKind
	env.Resolve = func(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
		resource, err := resolve(ctx, apiVersion, plural)
		return resource, w.watchOf(resource, err, plural+"."+object.GroupOf(apiVersion))
	}
	env.ResolveKind = func(ctx context.Context, apiVersion, kind string) (object.Resource, error) {
		resource, err := resolveKind(ctx, apiVersion, kind)
		// The plural of a kind that is not served is a guess. If it is wrong, a retry
		// finds the kind later.
		guess, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
		return resource, w.watchOf(resource, err, guess.Resource+"."+guess.Group)
	}
	return env
}

// watchOf watches the CRD of a resolved kind, if it has or may have one, and returns err.
func (w *crdWatches) watchOf(resource object.Resource, err error, definition string) error {
	_, group, _ := strings.Cut(definition, ".")
	switch {
	case err == nil && resource.Custom:
		w.watch(crds.NameOf(resource))
	case errors.Is(err, compile.ErrNotServed) && strings.Contains(group, "."):
		w.watch(definition)
	}
	return err
}

package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// compilation compiles controllers, and says why one may not run.
type compilation struct {
	shared

	crdWatches *crdWatches
	// readers read the code of inline hooks, by controller. Only the worker of the queue uses them.
	readers map[queue.Key]*configmap.Reader
	// inline compiles that code; nil without Inline.
	inline *calls.Compiler
}

// compileDeclared returns the programs of a controller object if it may run.
func (c *compilation) compileDeclared(ctx context.Context, key queue.Key, declared *object.Object) (*compile.Compiled, error) {
	env := c.Environment()
	env.Sources, env.FormerLogic = c.reader(key), c.revisions().Previous
	if c.inline != nil {
		env.Inline = c.inline.Compile
	}
	c.Resolver.Known.AddUsed(compile.StoredStatus(declared).Kinds)
	compiled, err := c.declared.Kind(key).Compile(ctx, declared, env)
	if err != nil {
		return nil, err
	}
	compiled.SetUnserved()
	if err := c.checkRunnable(ctx, key, declared, compiled); err != nil {
		compiled.Close()
		return nil, err
	}
	return compiled, nil
}

// reader returns what reads the code of a controller. A change compiles the controller again.
func (c *compilation) reader(key queue.Key) *configmap.Reader {
	if c.readers[key] == nil {
		changed := queue.Cause{Kind: queue.RelatedChanged, Detail: object.ConfigMaps.Kind}
		c.readers[key] = configmap.NewReader(c.Store, func() { c.queue.Add(key, changed) })
	}
	return c.readers[key]
}

// codeCompiled enqueues a controller whose code is compiled.
func (c *compilation) codeCompiled(name string) {
	kind, object, _ := strings.Cut(name, "/")
	c.queue.Add(queue.Key{Namespace: kind, Name: object}, queue.Cause{Kind: queue.HookChanged})
}

// checkRunnable refuses a controller that conflicts with another one, or lacks access.
func (c *compilation) checkRunnable(ctx context.Context, key queue.Key, declared *object.Object, compiled *compile.Compiled) error {
	kind := c.declared.Kind(key)
	if err := c.Owners.Check(ctx, declared); err != nil {
		return err
	}
	if kind.Metacontroller() {
		notes, err := c.Metacontrollers.Check(ctx, declared)
		if err != nil {
			return err
		}
		compiled.Notes = append(compiled.Notes, notes...)
	}
	if err := c.registry.all().checkConflict(key, conflicts.Rank(declared), compiled); err != nil {
		return err
	}
	if err := c.Others.Check(conflicts.Rank(declared), compiled); err != nil {
		return err
	}
	return c.Permissions.CheckNamespaces(ctx, kind.Resource, compiled)
}

// dropCode forgets the code of a removed controller.
func (c *compilation) dropCode(key queue.Key) {
	if reader := c.readers[key]; reader != nil {
		reader.Close()
		delete(c.readers, key)
	}
	if c.inline != nil {
		c.inline.Drop(key.String())
	}
}

// compileHeld compiles a controller of the program. If a kind of it is not served and was not since the process
// started, it has run with it before if objects have its finalizer: they must not wait for the kind.
func (c *compilation) compileHeld(ctx context.Context, own GoController) (*compile.Compiled, error) {
	env := c.crdWatches.environment(c.Environment())
	compiled, err := own.Compile(ctx, env)
	if !errors.Is(err, compile.ErrNotServed) {
		return compiled, err
	}
	env.Known = func(apiVersion, name string) (object.Resource, bool) {
		if known, was := c.Resolver.Known.Find(apiVersion, name); was {
			return known, true
		}
		return served.Guess(apiVersion, name), true
	}
	held, heldErr := own.Compile(ctx, env)
	if heldErr != nil {
		return nil, err
	}
	for resource, finalizer := range held.Finalizers() {
		removal := finalizers.Removal{Cluster: c.Finalizers, Finalizer: finalizer, DryRun: true}
		if removal.RemoveFrom(ctx, resource) == nil && removal.Removed.Load() > 0 {
			return held, nil
		}
	}
	held.Close()
	return nil, err
}

func (c *compilation) compileGoController(ctx context.Context, key queue.Key, i int) (*compile.Compiled, error) {
	compiled, err := c.compileHeld(ctx, c.GoControllers[i])
	if _, refused := errors.AsType[*compile.Refusal](err); !refused && errors.Is(err, compile.ErrNotServed) {
		err = &compile.Refusal{Reason: setpoint.ReasonResourceNotFound, Err: fmt.Errorf("%w; the controller starts when it is served", err)}
	}
	if err != nil {
		return nil, err
	}
	compiled.SetUnserved()
	if err = c.registry.all().checkConflict(key, goControllerRank(i), compiled); err == nil {
		err = c.Permissions.Check(ctx, object.Resource{}, compiled)
	}
	if err != nil {
		compiled.Close()
		return nil, err
	}
	return compiled, nil
}

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
		// The plural of a kind that is not served is a guess. If it is wrong, a retry finds the kind later.
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

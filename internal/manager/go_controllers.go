package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// GoController is a controller that is declared by a Go program, not by an object.
type GoController struct {
	// Name identifies it in logs, metrics and health; no other may have it, and its
	// programs have the same.
	Name string
	// Compile makes its programs. It is called again when a CRD changes that
	// concerns it, and after an error: at once when a kind that it asked env for
	// begins to be served, and now and then. Of what it returns, some may never be
	// run. An error that wraps compile.ErrNotServed is waited out; a
	// *compile.Refusal says what is to be mended by somebody.
	Compile func(ctx context.Context, env compile.Environment) (*compile.Compiled, error)
}

func checkGoControllers(all []GoController) error {
	names := map[string]bool{}
	for _, own := range all {
		if own.Name == "" || own.Compile == nil {
			return errors.New("a controller of the program lacks a name, or a way to compile it")
		}
		if names[own.Name] {
			return fmt.Errorf("two controllers of the program are called %q", own.Name)
		}
		names[own.Name] = true
	}
	return nil
}

func goControllerKey(name string) queue.Key { return queue.Key{Name: name} }

// goControllerRank orders a program's controllers as it lists them.
func goControllerRank(i int) string { return fmt.Sprintf("%06d", i) }

// goControllerIndex is where a controller stands in the program's list; less than 0 for one
// that an object declares.
func (cs *controllerSet) goControllerIndex(key queue.Key) int {
	return slices.IndexFunc(cs.manager.options.GoControllers, func(own GoController) bool { return goControllerKey(own.Name) == key })
}

// runGoControllers runs a Go program's own controllers until the context ends.
func (cs *controllerSet) runGoControllers(ctx context.Context) error {
	for _, d := range cs.manager.crds {
		cs.watchCRD(d.Name())
	}
	defer cs.stopAll()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { cs.processQueue(ctx); return nil })
	group.Go(func() error { cs.logGoControllers(ctx); return nil })
	return group.Wait()
}

// reconcileGoController compiles a controller of the program and sets it to work.
func (cs *controllerSet) reconcileGoController(ctx context.Context, key queue.Key, i int) queue.Outcome {
	compiled, err := cs.compileGoController(ctx, key, i)
	if ctx.Err() != nil {
		return queue.NoRequeue()
	}
	now := controllerState{rank: goControllerRank(i), refusal: err}
	refusal, refused := errors.AsType[*compile.Refusal](err)
	if err == nil || refused || cs.entry(key).running == nil {
		cs.replace(ctx, key, now, compiled)
	}
	if err != nil && !refused {
		return queue.Retry()
	}
	return outcomeOf(refusal)
}

func (cs *controllerSet) compileGoController(ctx context.Context, key queue.Key, i int) (*compile.Compiled, error) {
	compiled, err := cs.manager.options.GoControllers[i].Compile(ctx, cs.watchingEnvironment())
	if _, refused := errors.AsType[*compile.Refusal](err); !refused && errors.Is(err, compile.ErrNotServed) {
		err = &compile.Refusal{Reason: setpoint.ReasonResourceNotFound, Err: fmt.Errorf("%w; the controller starts by itself when it is", err)}
	}
	if err != nil {
		return nil, err
	}
	if compiled.Release == nil {
		compiled.Release = func() {}
	}
	if err = cs.checkConflict(key, goControllerRank(i), compiled); err == nil {
		err = cs.manager.checkAccess(ctx, key.Name, controllerPermissions(object.Resource{}, compiled, &cs.manager.options))
	}
	if err != nil {
		compiled.Release()
		return nil, err
	}
	return compiled, nil
}

// watchingEnvironment is the environment of a Go program's own controllers: the CRDs of the
// kinds they ask for are watched from then on.
func (cs *controllerSet) watchingEnvironment() compile.Environment {
	env := cs.manager.compileEnvironment()
	resolve, resolveKind := env.Resolve, env.ResolveKind
	env.Resolve = func(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
		resource, err := resolve(ctx, apiVersion, plural)
		return resource, cs.watchCRDOf(resource, err, plural+"."+object.GroupOf(apiVersion))
	}
	env.ResolveKind = func(ctx context.Context, apiVersion, kind string) (object.Resource, error) {
		resource, err := resolveKind(ctx, apiVersion, kind)
		// One that is not served yet has no plural that could be known; where the
		// guess is wrong, the kind is found a little later.
		guess, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
		return resource, cs.watchCRDOf(resource, err, guess.Resource+"."+guess.Group)
	}
	return env
}

// watchCRDOf watches the CRD of a kind that was looked up, if it has or may have one. It
// returns the error of looking it up.
func (cs *controllerSet) watchCRDOf(resource object.Resource, err error, definition string) error {
	_, group, _ := strings.Cut(definition, ".")
	switch {
	case err == nil && resource.Custom:
		cs.watchCRD(crdNameOf(resource))
	case errors.Is(err, compile.ErrNotServed) && strings.Contains(group, "."):
		cs.watchCRD(definition)
	}
	return err
}

// crdNameOf is the name of a custom resource's CRD.
func crdNameOf(resource object.Resource) string { return resource.Plural + "." + resource.Group }

// watchCRD watches one CRD, which need not be there, until the end. A program may be
// allowed to see those alone that concern it.
func (cs *controllerSet) watchCRD(definition string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.crdWatches[definition] == nil {
		cs.crdWatches[definition] = cs.manager.store.Watch(cache.Selection{Resource: crdResource, Name: definition, Metadata: true}, cs.goControllerCRDChanged)
	}
}

// goControllerCRDChanged is crdChanged for controllers that may have waited
// for long: they begin anew to look often.
func (cs *controllerSet) goControllerCRDChanged(e cache.Event) {
	name := changedName(e)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, entry := range cs.entries {
		if entry.running == nil || e.Old != nil && entry.running.usesCRD(name) {
			cs.queue.Add(key, queue.Cause{Kind: queue.ParentChanged, Detail: crdResource.Kind, Object: queue.Key{Name: name}})
		}
	}
}

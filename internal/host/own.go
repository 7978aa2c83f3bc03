package host

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
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// Own is a controller that is declared by a Go program, not by an object.
type Own struct {
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

func checkOwn(all []Own) error {
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

func ownKey(name string) queue.Key { return queue.Key{Name: name} }

// ownRank orders a program's controllers as it lists them.
func ownRank(i int) string { return fmt.Sprintf("%06d", i) }

// ownIndex is where a controller stands in the program's list; less than 0 for one
// that an object declares.
func (f *fleet) ownIndex(key queue.Key) int {
	return slices.IndexFunc(f.host.options.Own, func(own Own) bool { return ownKey(own.Name) == key })
}

// runOwn runs a Go program's own controllers until the context ends.
func (f *fleet) runOwn(ctx context.Context) error {
	for _, d := range f.host.definitions {
		f.await(d.Name())
	}
	defer f.stopAll()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { f.work(ctx); return nil })
	group.Go(func() error { f.tellOwn(ctx); return nil })
	return group.Wait()
}

// reconcileOwn compiles a controller of the program and sets it to work.
func (f *fleet) reconcileOwn(ctx context.Context, key queue.Key, i int) queue.Outcome {
	compiled, err := f.compileOwn(ctx, key, i)
	if ctx.Err() != nil {
		return queue.Settled()
	}
	now := state{rank: ownRank(i), refusal: err}
	refusal, refused := errors.AsType[*compile.Refusal](err)
	if err == nil || refused || f.member(key).running == nil {
		f.settle(ctx, key, now, compiled)
	}
	if err != nil && !refused {
		return queue.Retry()
	}
	return outcomeOf(refusal)
}

func (f *fleet) compileOwn(ctx context.Context, key queue.Key, i int) (*compile.Compiled, error) {
	compiled, err := f.host.options.Own[i].Compile(ctx, f.attentive())
	if _, refused := errors.AsType[*compile.Refusal](err); !refused && errors.Is(err, compile.ErrNotServed) {
		err = &compile.Refusal{Reason: setpoint.ReasonResourceNotFound, Err: fmt.Errorf("%w; the controller starts by itself when it is", err)}
	}
	if err != nil {
		return nil, err
	}
	if compiled.Release == nil {
		compiled.Release = func() {}
	}
	if err = f.rival(key, ownRank(i), compiled); err == nil {
		err = f.host.permitted(ctx, key.Name, needs(object.Resource{}, compiled, &f.host.options))
	}
	if err != nil {
		compiled.Release()
		return nil, err
	}
	return compiled, nil
}

// attentive is the environment of a Go program's own controllers: the CRDs of the
// kinds they ask for are watched from then on.
func (f *fleet) attentive() compile.Environment {
	env := f.host.environment()
	resolve, resolveKind := env.Resolve, env.ResolveKind
	env.Resolve = func(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
		resource, err := resolve(ctx, apiVersion, plural)
		return resource, f.heed(resource, err, plural+"."+object.GroupOf(apiVersion))
	}
	env.ResolveKind = func(ctx context.Context, apiVersion, kind string) (object.Resource, error) {
		resource, err := resolveKind(ctx, apiVersion, kind)
		// One that is not served yet has no plural that could be known; where the
		// guess is wrong, the kind is found a little later.
		guess, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
		return resource, f.heed(resource, err, guess.Resource+"."+guess.Group)
	}
	return env
}

// heed watches the CRD of a kind that was looked up, if it has or may have one. It
// returns the error of looking it up.
func (f *fleet) heed(resource object.Resource, err error, definition string) error {
	_, group, _ := strings.Cut(definition, ".")
	switch {
	case err == nil && resource.Custom:
		f.await(definitionOf(resource))
	case errors.Is(err, compile.ErrNotServed) && strings.Contains(group, "."):
		f.await(definition)
	}
	return err
}

// definitionOf is the name of a custom resource's CRD.
func definitionOf(resource object.Resource) string { return resource.Plural + "." + resource.Group }

// await watches one CRD, which need not be there, until the end. A program may be
// allowed to see those alone that concern it.
func (f *fleet) await(definition string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awaited[definition] == nil {
		f.awaited[definition] = f.host.store.Watch(store.Selection{Resource: definitions, Name: definition, Metadata: true}, f.ownDefinitionChanged)
	}
}

// ownDefinitionChanged is definitionChanged for controllers that may have waited
// for long: they begin anew to look often.
func (f *fleet) ownDefinitionChanged(e store.Event) {
	name := definitionName(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, m := range f.members {
		if m.running == nil || e.Old != nil && m.running.uses(name) {
			f.queue.Add(key, queue.Cause{Kind: queue.ParentChanged, Detail: definitions.Kind, Object: queue.Key{Name: name}})
		}
	}
}

package setpoint

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// compile returns the programs of the admission webhooks, and of the handlers and
// indexes. A kind without handlers and indexes is not watched.
func (h *Handlers[T]) compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
	found, err := h.c.resolveResources(ctx, env)
	if err != nil {
		return nil, err
	}
	reviews, err := h.admissionProgram(found.resource, &env)
	if err != nil {
		return nil, err
	}
	compiled := &compile.Compiled{Admission: reviews}
	if reviews != nil {
		compiled.AdmissionKinds = []object.Resource{found.resource}
	}
	if len(h.handlers)+len(h.c.indexes) == 0 {
		return compiled, nil
	}
	program, err := h.handlerProgram(ctx, &found, &env)
	if err != nil {
		return nil, err
	}
	compiled.Handlers = []loop.Program{program}
	if len(h.c.indexes) > 0 {
		compiled.Index = func(from *cache.Cache) (func(), error) { return h.startWatches(from, &program) }
	}
	if env.Store == nil {
		return compiled, nil // There is no cluster.
	}
	compiled.Release, err = h.startWatches(env.Store, &program)
	return compiled, err
}

func (h *Handlers[T]) handlerProgram(ctx context.Context, found *resolvedResources, env *compile.Environment) (loop.Program, error) {
	known, err := h.c.app.kinds()
	if err != nil {
		return loop.Program{}, err
	}
	program := loop.Program{
		Name: h.c.name(), Resource: found.resource, Labels: h.c.labels, Fields: h.c.fields,
		Namespaces: h.c.namespacesFor(found.resource), Owns: found.owns, Writes: found.writes, Reads: found.reads,
		HandledAnnotation: h.c.recordAnnotation(), Finalizer: h.c.finalizer(), Manager: h.c.fieldManager(), Workers: h.c.workers,
		Conditions: known.statusHas(h.c.kind, "conditions"), Namespace: env.Namespace,
	}
	records := known.statusHas(h.c.kind, loop.HandledStatusField)
	if env.StatusOf != nil {
		// Its CRD need not be the program's, and may be newer than that.
		stored, err := env.StatusOf(ctx, found.resource)
		if err != nil {
			return loop.Program{}, err
		}
		program.Conditions, records = program.Conditions || stored.Conditions, records || stored.Records
	}
	if records {
		program.HandledStatusKey = h.c.markerName()
	}
	for _, k := range h.c.related {
		related, err := k.resolve(ctx, env)
		if err != nil {
			return loop.Program{}, err
		}
		program.Related = append(program.Related, related)
	}
	if program.Workers == 0 {
		program.Workers = env.Workers
	}
	for _, one := range h.handlers {
		program.Handlers = append(program.Handlers, one.program())
	}
	return program, nil
}

// resolvedResources are the kinds of a controller as the API server serves them.
type resolvedResources struct {
	resource object.Resource
	owns     []object.Resource
	reads    []object.Resource
	writes   []loop.WritePermission
}

func (c *controller) resolveResources(ctx context.Context, env compile.Environment) (resolvedResources, error) {
	var f resolvedResources
	resource, err := resolve(ctx, env, c.kind)
	if err != nil {
		return f, err
	}
	f.resource = resource
	if f.owns, err = resolveAll(ctx, env, c.owns); err != nil {
		return f, err
	}
	if f.reads, err = resolveAll(ctx, env, c.reads); err != nil {
		return f, err
	}
	for _, one := range c.writes() {
		if one.Resource, err = resolveUsed(ctx, env, one.kind); err != nil {
			return f, err
		}
		f.writes = append(f.writes, one.WritePermission)
	}
	return f, nil
}

func resolveAll(ctx context.Context, env compile.Environment, kinds []kind) ([]object.Resource, error) {
	var all []object.Resource
	for _, k := range kinds {
		resource, err := resolveUsed(ctx, env, k)
		if err != nil {
			return nil, err
		}
		all = append(all, resource)
	}
	return all, nil
}

func resolve(ctx context.Context, env compile.Environment, k kind) (object.Resource, error) {
	resource, err := env.ResolveKind(ctx, k.apiVersion, k.kind)
	if err != nil {
		return resource, fmt.Errorf("look up %s: %w", k, err)
	}
	return resource, nil
}

// resolveUsed is resolve for a kind that the controller can do without once it has run with it.
func resolveUsed(ctx context.Context, env compile.Environment, k kind) (object.Resource, error) {
	resource, err := resolve(ctx, env, k)
	if known, was := env.Unserved(err, k.apiVersion, k.kind); was {
		return known, nil
	}
	return resource, err
}

// kindWrite is the write permission of a kind.
type kindWrite struct {
	kind
	loop.WritePermission
}

// writes joins the declarations of Applies, Deletes and Evicts by kind.
func (c *controller) writes() []kindWrite {
	var all []kindWrite
	at := map[object.GroupKind]int{}
	entry := func(k kind) *kindWrite {
		i, known := at[k.group()]
		if !known {
			i = len(all)
			at[k.group()], all = i, append(all, kindWrite{kind: k})
		}
		return &all[i]
	}
	for _, k := range c.applies {
		entry(k).Apply = true
	}
	for _, k := range c.deletes {
		entry(k).Delete = true
	}
	if c.evicts {
		entry(pods()).Evict = true
	}
	return all
}

func pods() kind { return kind{"v1", "Pod"} }

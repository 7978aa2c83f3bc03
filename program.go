package setpoint

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/react"
)

func (h *Handlers[T]) own() host.Own { return host.Own{Name: h.c.name(), Compile: h.compile} }

// compile makes the programs: of the reviews, and of the handlers and indexes, without
// which the kind is not watched.
func (h *Handlers[T]) compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
	found, err := h.c.find(ctx, env)
	if err != nil {
		return nil, err
	}
	reviews, err := h.admission(found.resource, &env)
	if err != nil {
		return nil, err
	}
	compiled := &compile.Compiled{Admission: reviews}
	if reviews != nil {
		compiled.Asked = []object.Resource{found.resource}
	}
	if len(h.handlers)+len(h.indexes) == 0 {
		return compiled, nil
	}
	program, err := h.reaction(ctx, &found, &env)
	if err != nil {
		return nil, err
	}
	compiled.Reactions = []react.Program{program}
	if env.Store == nil {
		return compiled, nil // There is no cluster.
	}
	compiled.Release, err = h.observe(env.Store, &program)
	return compiled, err
}

// reaction makes the program of the handlers.
func (h *Handlers[T]) reaction(ctx context.Context, found *found, env *compile.Environment) (react.Program, error) {
	known, err := h.c.app.kinds()
	if err != nil {
		return react.Program{}, err
	}
	program := react.Program{
		Name: h.c.name(), Resource: found.resource, Labels: h.c.labels, Fields: h.c.fields,
		Namespaces: h.c.within, Owns: found.owns, Writes: found.writes, Reads: found.reads,
		Record: h.c.record(), Finalizer: h.c.finalizer(), Manager: h.c.manager(), Workers: h.c.workers,
		Conditions: known.inStatus(h.c.kind, "conditions"), Namespace: env.Namespace,
	}
	records := known.inStatus(h.c.kind, react.StatusRecords)
	if env.StatusOf != nil {
		// Its CRD need not be the program's, and may be newer than that.
		stored, err := env.StatusOf(ctx, found.resource)
		if err != nil {
			return react.Program{}, err
		}
		program.Conditions, records = program.Conditions || stored.Conditions, records || stored.Records
	}
	if records {
		program.StatusRecord = h.c.mark()
	}
	if program.Workers == 0 {
		program.Workers = env.Workers
	}
	for _, one := range h.handlers {
		program.Handlers = append(program.Handlers, one.program())
	}
	return program, nil
}

// found is what the API server serves of the kinds of a controller.
type found struct {
	resource object.Resource
	owns     []object.Resource
	reads    []object.Resource
	writes   []react.Write
}

// find asks the API server for the kinds of a controller.
func (c *controller) find(ctx context.Context, env compile.Environment) (found, error) {
	var f found
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
		if one.Resource, err = resolve(ctx, env, one.kind); err != nil {
			return f, err
		}
		f.writes = append(f.writes, c.confined(resource, one.Write)...)
	}
	return f, nil
}

// confined is a permission as a run has it that is limited to namespaces: what it
// handles there, it has no business elsewhere.
func (c *controller) confined(handled object.Resource, w react.Write) []react.Write {
	if len(c.within) == 0 || !handled.Namespaced || !w.Resource.Namespaced {
		return []react.Write{w}
	}
	var all []react.Write
	for _, w.Namespace = range c.within {
		all = append(all, w)
	}
	return all
}

func resolveAll(ctx context.Context, env compile.Environment, kinds []kind) ([]object.Resource, error) {
	var all []object.Resource
	for _, k := range kinds {
		resource, err := resolve(ctx, env, k)
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

// write is what may be written of a kind.
type write struct {
	kind
	react.Write
}

// writes joins what Applies, Deletes and Evicts declare, a kind at a time.
func (c *controller) writes() []write {
	var all []write
	at := map[object.GroupKind]int{}
	entry := func(k kind) *write {
		i, known := at[k.group()]
		if !known {
			i = len(all)
			at[k.group()], all = i, append(all, write{kind: k})
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

// pods are what can be evicted.
func pods() kind { return kind{"v1", "Pod"} }

package sdk

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// resolvedResources are the kinds of a controller as the API server serves them.
type resolvedResources struct {
	resource object.Resource
	owns     []object.Resource
	reads    []object.Resource
	writes   []permit.Write
}

func (c *Controller) resolveResources(ctx context.Context, env compile.Environment) (resolvedResources, error) {
	var f resolvedResources
	var err error
	if f.resource, err = resolve(ctx, env, c.Kind); err != nil {
		return f, err
	}
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
		f.writes = append(f.writes, one.Write)
	}
	return f, nil
}

func resolveAll(ctx context.Context, env compile.Environment, kinds []kinds.Kind) ([]object.Resource, error) {
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

func resolve(ctx context.Context, env compile.Environment, k kinds.Kind) (object.Resource, error) {
	resource, err := env.ResolveKind(ctx, k.APIVersion, k.Name)
	if err != nil {
		return resource, fmt.Errorf("look up %s: %w", k, err)
	}
	return resource, nil
}

// resolveUsed is resolve for a kind that the controller can do without once it has run with it.
func resolveUsed(ctx context.Context, env compile.Environment, k kinds.Kind) (object.Resource, error) {
	resource, err := resolve(ctx, env, k)
	if known, was := env.ServedBefore(err, k.APIVersion, k.Name); was {
		return known, nil
	}
	return resource, err
}

// kindWrite is the write permission of a kind.
type kindWrite struct {
	kind kinds.Kind
	permit.Write
}

// writes joins the declarations of Applies, Deletes and Evicts by kind.
func (c *Controller) writes() []kindWrite {
	var all []kindWrite
	at := map[object.GroupKind]int{}
	entry := func(k kinds.Kind) *kindWrite {
		i, known := at[k.Group()]
		if !known {
			i = len(all)
			at[k.Group()], all = i, append(all, kindWrite{kind: k})
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

func pods() kinds.Kind { return kinds.Kind{APIVersion: "v1", Name: "Pod"} }

package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// controllers returns the declared controllers for the manager.
func (o *Operator) controllers() []controllers.GoController {
	var all []controllers.GoController
	for i := range o.declaration.Controllers {
		declared := &o.declaration.Controllers[i]
		c := &controller{declaredController: declared, field: fmt.Sprintf("controllers[%d]", i), operator: o}
		own := controllers.GoController{Name: o.declaration.Name + "/" + declared.Metadata.Name, Compile: c.compile}
		if declared.selects() {
			own.Changed = o.discovery.notify()
		}
		all = append(all, own)
	}
	return all
}

// controller compiles a declared controller.
type controller struct {
	*declaredController

	field    string
	operator *Operator
}

// compile compiles the controller with the kinds that are served now. Kinds that come later
// are compiled in when discovery has changed.
func (c *controller) compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
	r := resolution{ctx: ctx, env: &env}
	var err error
	if r.all, err = c.operator.discovery.kinds(ctx); err != nil {
		return nil, err
	}
	spec, err := c.expand(c.field, c.operator.endpoint.base, r.kinds)
	if err != nil {
		return nil, err
	}
	if len(r.unserved) > 0 && len(r.selected) == 0 {
		if c.operator.discovery.fixed {
			return nil, fmt.Errorf("%w: neither Kubernetes nor a CRD in the files has such a kind; add its CRD to the files",
				errors.Join(r.unserved...))
		}
		return nil, fmt.Errorf("%w: %w", errors.Join(r.unserved...), compile.ErrNotServed)
	}
	env.Dial, env.Routed, env.Authorization = c.operator.endpoint.dial, c.operator.endpoint.routed, c.operator.endpoint.authorize
	compiled, err := c.compileKinds(ctx, env, &r, spec)
	if err != nil {
		return nil, err
	}
	for _, each := range r.unserved {
		compiled.Notes = append(compiled.Notes, each.Error()+" yet; it is handled when it is served")
	}
	if reviews := compiled.Admission; reviews != nil {
		// The declaring object is not stored, so it can own nothing.
		reviews.Owner = nil
		reviews.Configuration = c.operator.declaration.Name + "." + c.Metadata.Name + "." + env.Namespace
	}
	return compiled, nil
}

// compileSpec compiles the controller with a spec that has no selectors.
func (c *controller) compileSpec(ctx context.Context, env compile.Environment, spec map[string]any) (*compile.Compiled, error) {
	declared, err := c.object(c.field, spec)
	if err != nil {
		return nil, err
	}
	kind := c.kind
	// In logs and metrics a controller has the name of its operator, as those of Go programs do.
	kind.Name = c.operator.declaration.Name
	return kind.Compile(ctx, declared, env)
}

// object returns the controller as an object with a spec.
func (c *declaredController) object(field string, spec map[string]any) (*object.Object, error) {
	data, err := json.Marshal(map[string]any{"apiVersion": c.APIVersion, "kind": c.Kind, "metadata": c.Metadata, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return object.Parse(data)
}

// resolution finds the kinds of selectors.
type resolution struct {
	ctx context.Context //nolint:containedctx // It lasts as long as a call.
	env *compile.Environment
	all []served.Kind
	// selected are the kinds that were found, unserved the selectors without one.
	selected []object.Kind
	unserved []error
}

// kinds implements selectKinds.
func (r *resolution) kinds(field string, s *Selector) ([]object.Kind, error) {
	found, err := s.find(r.all)
	if err != nil {
		return nil, &compile.Refusal{Reason: setpoint.ReasonInvalidSpec, Err: fmt.Errorf("%s: %w", field, err)}
	}
	kinds := lists.Map(found, func(k served.Kind) object.Kind { return k.Kind })
	if len(kinds) == 0 {
		kinds, err = r.resolveExact(s)
	}
	if len(kinds) == 0 && err == nil {
		r.unserved = append(r.unserved, fmt.Errorf("%s: no kind matches %s", field, s))
	}
	r.selected = lists.Union(r.selected, kinds)
	return kinds, err
}

// resolveExact finds a kind that discovery may not list yet. The environment watches its CRD,
// so that the controller starts as soon as it exists.
func (r *resolution) resolveExact(s *Selector) ([]object.Kind, error) {
	apiVersion, plural, is := s.exact()
	if !is {
		return nil, nil
	}
	resource, err := r.env.Resolve(r.ctx, apiVersion, plural)
	switch {
	case errors.Is(err, compile.ErrNotServed):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up %s: %w", s, err)
	}
	return []object.Kind{object.KindOf(resource)}, nil
}

// selects reports whether kinds of the controller depend on discovery.
func (c *declaredController) selects() bool {
	if len(c.Selectors) > 0 {
		return true
	}
	selects := false
	_, _ = c.expand("", "", func(string, *Selector) ([]object.Kind, error) { selects = true; return nil, nil })
	return selects
}

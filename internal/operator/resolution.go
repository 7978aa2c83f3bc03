package operator

import (
	"context"
	"errors"
	"fmt"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

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
	selects := false
	_, _ = c.expand("", "", func(string, *Selector) ([]object.Kind, error) { selects = true; return nil, nil })
	return selects
}

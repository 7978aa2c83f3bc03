package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// controller compiles a declared controller.
type controller struct {
	*declaredController

	field    string
	operator *Operator
}

// Compile compiles the controller with the kinds that are served now. Kinds that come later
// are compiled in when discovery has changed.
func (c *controller) Compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
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
		reviews.Configuration = c.operator.Name + "." + c.Metadata.Name + "." + env.Namespace
	}
	return compiled, nil
}

// compileSpec compiles the controller with a spec that has no selectors.
func (c *controller) compileSpec(ctx context.Context, env compile.Environment, spec map[string]any) (*compile.Compiled, error) {
	declared, err := c.asObject(c.field, spec)
	if err != nil {
		return nil, err
	}
	kind := c.kind
	// In logs and metrics a controller has the name of its operator, as those of Go programs do.
	kind.Name = c.operator.Name
	return kind.Compile(ctx, declared, env)
}

// mergedSeparator separates names of controllers in the path of a merged one.
const mergedSeparator = "+"

// kindGroup are kinds that the same controllers select. The first of these handles them, with the
// handlers of all.
type kindGroup struct {
	controllers []*declaredController
	kinds       []object.Kind
}

// compileKinds compiles the controller for the kinds that it is the first to select. Another one
// handles the others, which a note says.
func (c *controller) compileKinds(ctx context.Context, env compile.Environment, r *resolution, spec map[string]any) (*compile.Compiled,
	error) {
	if c.operator.Merged == "" || len(c.Selectors) == 0 {
		return c.compileSpec(ctx, env, spec)
	}
	all := &compile.Compiled{Release: func() {}}
	for _, group := range c.groupKinds(r.all, r.selected) {
		if first := group.controllers[0]; first != c.declaredController {
			all.Notes = append(all.Notes, fmt.Sprintf("%s handles %s, with the handlers of this controller",
				first.Metadata.Name, kindNames(group.kinds)))
			continue
		}
		compiled, err := c.compileGroup(ctx, env, group, spec, len(r.selected) > 1)
		if err != nil {
			all.Release()
			return nil, err
		}
		all.Add(compiled)
	}
	return all, nil
}

// compileGroup compiles the controller for some of its kinds. Whether it has several in all is
// a part of how records are named.
func (c *controller) compileGroup(ctx context.Context, env compile.Environment, group *kindGroup, spec map[string]any,
	several bool) (*compile.Compiled, error) {
	if len(group.controllers) == 1 {
		spec = runtime.DeepCopyJSON(spec)
		setKinds(spec, group.kinds, several)
		return c.compileSpec(ctx, env, spec)
	}
	merged, err := c.operator.merged(ctx, group)
	if err != nil {
		return nil, err
	}
	noKinds := func(string, *Selector) ([]object.Kind, error) { return nil, nil }
	if spec, err = merged.expand(merged.field, c.operator.endpoint.base, noKinds); err != nil {
		return nil, err
	}
	setKinds(spec, group.kinds, several)
	finalizers := lists.Map(group.controllers[1:], func(other *declaredController) any { return other.finalizer() })
	replaced, _ := spec["replacedFinalizers"].([]any)
	spec["replacedFinalizers"] = append(replaced, finalizers...)
	compiled, err := merged.compileSpec(ctx, env, spec)
	if err != nil {
		return nil, err
	}
	for _, other := range group.controllers[1:] {
		compiled.TakeOverRecords(other.Metadata.Name)
	}
	return compiled, nil
}

// merged requests the controller of a group from the process.
func (o *Operator) merged(ctx context.Context, group *kindGroup) (*controller, error) {
	names := lists.Map(group.controllers, func(c *declaredController) string { return c.Metadata.Name })
	path := o.Merged + "/" + strings.Join(names, mergedSeparator)
	data, err := o.endpoint.get(ctx, path, declareTimeout, maxDeclarationBytes)
	if err != nil {
		return nil, fmt.Errorf("merge the controllers of %s: %w", kindNames(group.kinds), err)
	}
	declared := &declaredController{notifications: o.Notifications}
	if err := decodeStrictly(data, declared); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	problems := declared.check(path)
	if name := declared.Metadata.Name; name != names[0] {
		problems = append(problems, fmt.Errorf("%s.metadata.name: must be %s, not %s", path, names[0], name))
	}
	return &controller{declaredController: declared, field: path, operator: o}, errors.Join(problems...)
}

// groupKinds returns kinds of the controller by the controllers that select them.
func (c *controller) groupKinds(all []served.Kind, kinds []object.Kind) []*kindGroup {
	var groups []*kindGroup
	for _, kind := range kinds {
		selecting := c.operator.selecting(all, kind)
		if !slices.Contains(selecting, c.declaredController) {
			selecting = []*declaredController{c.declaredController} // Discovery does not list the kind yet.
		}
		i := slices.IndexFunc(groups, func(g *kindGroup) bool { return slices.Equal(g.controllers, selecting) })
		if i < 0 {
			i, groups = len(groups), append(groups, &kindGroup{controllers: selecting})
		}
		groups[i].kinds = append(groups[i].kinds, kind)
	}
	return groups
}

// selecting returns the controllers that select a kind: those that name it before those with
// broader selectors, otherwise in the order of the declaration.
func (o *Operator) selecting(all []served.Kind, kind object.Kind) []*declaredController {
	type selection struct {
		by      *declaredController
		breadth int
	}
	var found []selection
	for i := range o.Controllers {
		c := &o.Controllers[i]
		if j := slices.IndexFunc(c.Selectors, func(s Selector) bool { return s.selects(all, kind) }); j >= 0 {
			found = append(found, selection{c, c.Selectors[j].breadth()})
		}
	}
	slices.SortStableFunc(found, func(a, b selection) int { return cmp.Compare(a.breadth, b.breadth) })
	return lists.Map(found, func(each selection) *declaredController { return each.by })
}

// selects reports whether the selector selects a kind in its version.
func (s *Selector) selects(all []served.Kind, kind object.Kind) bool {
	found, err := s.find(all) // The controller of an ambiguous name reports the error itself.
	return err == nil && slices.ContainsFunc(found, func(k served.Kind) bool {
		return k.Plural == kind.Plural && k.Group == kind.Group
	})
}

// breadth orders selectors: those of one kind, of a category, and of any kind.
func (s *Selector) breadth() int {
	switch {
	case s.names():
		return 0
	case s.Category != "":
		return 1
	}
	return 2
}

func (c *declaredController) finalizer() string {
	if given, _ := c.Spec["finalizer"].(string); given != "" {
		return given
	}
	return compile.HandlerFinalizer(c.Metadata.Name)
}

func kindNames(kinds []object.Kind) string {
	names := lists.Map(kinds, func(k object.Kind) string { return k.APIVersion() + "/" + k.Plural })
	return strings.Join(names, ", ")
}

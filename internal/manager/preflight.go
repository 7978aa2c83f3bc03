package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Preflight returns why this Manager, which need not run, must not run controllers of a dev run: another
// controller of the cluster has the same objects, or permissions are missing. The objects are manifests, with
// controllers and CRDs that need not be stored. What is invalid is not checked; it is reported when it is applied.
func (m *Manager) Preflight(ctx context.Context, objects []*object.Object) error {
	definitions := slices.DeleteFunc(slices.Clone(objects), func(o *object.Object) bool { return o.Kind() != crds.Resource.Kind })
	defined, err := definedResources(definitions)
	if err != nil {
		return err
	}
	m.resolver.defined = defined
	defer func() { m.resolver.defined = nil }()
	others, err := m.otherControllers(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, other := range others {
			other.Release()
		}
	}()
	var problems []error
	for _, o := range objects {
		if err := m.preflight(ctx, o, others); err != nil {
			problems = append(problems, fmt.Errorf("%s/%s: %w", strings.ToLower(o.Kind()), o.Name(), err))
		}
	}
	return errors.Join(problems...)
}

// preflight checks one controller object.
func (m *Manager) preflight(ctx context.Context, o *object.Object, others []otherController) error {
	kind, known := compile.KindOf(o)
	if !known {
		return nil
	}
	if kind.Metacontroller() {
		if _, err := m.metacontrollers.Check(ctx, o); err != nil {
			return err
		}
	}
	compiled, err := kind.Compile(ctx, o, m.compileEnvironment())
	if err != nil {
		return nil // Applying it tells more, with the state of the cluster then.
	}
	defer compiled.Release()
	for _, other := range others {
		if conflicts.Overlap(other.Compiled, compiled) {
			return other.refusal()
		}
	}
	return m.checkAccess(ctx, kind.Resource, compiled)
}

// otherController is a controller object that is not of this dev run.
type otherController struct {
	*compile.Compiled
	managedBy string
}

// refusal says what to do about a controller of the same objects.
func (c otherController) refusal() error {
	by := "the cluster has"
	if c.managedBy != "" {
		by = "the Setpoint with the Lease " + c.managedBy + " manages"
	}
	return fmt.Errorf("%s the controller %s of the same objects, and both would reconcile them: suspend that one (spec.suspend: true) or delete it, "+
		"give each a labelSelector that excludes the other's objects, or use another cluster or namespace", by, c.Name())
}

// otherControllers returns the compiled controllers of the cluster, those that are suspended aside. Kinds
// that are not installed, or that the user may not list, have none.
func (m *Manager) otherControllers(ctx context.Context) ([]otherController, error) {
	var all []otherController
	for _, kind := range compile.Kinds() {
		stored, err := apply.New(m.client, apply.Options{DryRun: true}).List(ctx, kind.Resource, "", "")
		if request.IsForbiddenOrNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, o := range stored {
			if other, runs := m.otherController(ctx, kind, o); runs {
				all = append(all, other)
			}
		}
	}
	return all, nil
}

func (m *Manager) otherController(ctx context.Context, kind compile.Kind, o *object.Object) (otherController, bool) {
	if run := o.Labels().Get(setpoint.LabelDevRun); run != "" && run == m.options.DevRun {
		return otherController{}, false
	}
	env, managedBy := m.compileEnvironment(), storedStatus(o).ManagedBy
	env.Namespaces = nil
	other := otherController{}
	if managedBy != nil {
		other.managedBy, env.Namespaces = managedBy.Lease, managedBy.Namespaces
	}
	compiled, err := kind.Compile(ctx, o, env)
	switch {
	case err != nil:
		return other, false // It does not run either.
	case compiled.Suspended:
		compiled.Release()
		return other, false
	}
	other.Compiled = compiled
	return other, true
}

// User returns the name of the user of a configuration, or that it is unknown.
func User(ctx context.Context, config *rest.Config) string {
	client, err := newClient(Options{Config: config}.withDefaults())
	if err != nil {
		return "an unknown user"
	}
	return cmp.Or(rbac.Username(ctx, client), "an unknown user")
}

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

// Compiled is a controller for a dry run.
type Compiled struct {
	*compile.Compiled
	// Refused is why the controller does not run although its spec is valid; nil if it runs.
	Refused *compile.Refusal
	// HoldsDeletions reports whether the controller already holds deletions.
	HoldsDeletions bool
}

// Compile compiles a controller object, which need not be stored, with the code in ConfigMaps, of which those
// in files come first. The Manager need not run.
func (m *Manager) Compile(ctx context.Context, declared *object.Object, files ...*object.Object) (*Compiled, error) {
	kind, known := compile.KindOf(declared)
	if !known {
		return nil, fmt.Errorf("%s of %s is no controller kind", declared.Kind(), declared.APIVersion())
	}
	env := m.compileEnvironment()
	env.Sources = configmap.NewDryRunReader(m.Store, files...)
	defer env.Sources.Close()
	if by := compile.StoredStatus(declared).ManagedBy; by != nil && len(env.Namespaces) == 0 {
		env.Namespaces = by.Namespaces // The limit of the Setpoint that runs it.
	}
	m.Resolver.Known.AddUsed(compile.StoredStatus(declared).Kinds)
	compiled, err := kind.Compile(ctx, declared, env)
	if err != nil {
		return nil, err
	}
	compiled.SetUnserved()
	if compiled.Admission != nil {
		compiled.Close()
		return nil, fmt.Errorf("%s/%s reviews requests and has nothing to plan; use `kubectl apply --dry-run=server` to call it",
			declared.Kind(), declared.Name())
	}
	refused, notes, err := m.refusal(ctx, declared, compiled)
	if err != nil {
		compiled.Close()
		return nil, err
	}
	compiled.Notes = append(compiled.Notes, notes...)
	m.setStatusOwners(compiled)
	return &Compiled{compiled, refused, controllers.HasHeldDeletions(compile.StoredStatus(declared).Conditions)}, nil
}

// CompileNamed compiles a controller of this process by its name.
func (m *Manager) CompileNamed(ctx context.Context, name string) (*Compiled, error) {
	if i := slices.IndexFunc(m.options.GoControllers, func(own controllers.GoController) bool { return own.Name == name }); i >= 0 {
		compiled, err := m.options.GoControllers[i].Compile(ctx, m.compileEnvironment())
		if err != nil {
			return nil, err
		}
		m.setStatusOwners(compiled)
		refused, _ := errors.AsType[*compile.Refusal](m.controllers.RefusalOf(name))
		return &Compiled{compiled, refused, m.controllers.Healths()[name].Held.Count > 0}, nil
	}
	kindName, object, _ := strings.Cut(name, "/")
	kinds := compile.Kinds()
	i := slices.IndexFunc(kinds, func(k compile.Kind) bool { return k.Name == kindName })
	if i < 0 {
		return nil, fmt.Errorf("controller %s: %w", name, failure.ErrNotFound)
	}
	declared, err := m.Get(ctx, kinds[i].Resource, "", object)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case declared == nil:
		return nil, fmt.Errorf("controller %s: %w", name, failure.ErrNotFound)
	}
	return m.Compile(ctx, declared)
}

// CompileProgram compiles all controllers of a program as one, except those of admission.
func (m *Manager) CompileProgram(ctx context.Context) (*Compiled, error) {
	all := &compile.Compiled{Release: func() {}}
	for _, own := range m.options.GoControllers {
		compiled, err := own.Compile(ctx, m.compileEnvironment())
		if errors.Is(err, compile.ErrNotServed) {
			all.Notes = append(all.Notes, err.Error())
			continue
		}
		if err != nil {
			all.Release()
			return nil, fmt.Errorf("%s: %w", own.Name, err)
		}
		if compiled.Release == nil {
			compiled.Release = func() {}
		}
		if compiled.Admission != nil {
			compiled.Close()
			continue
		}
		all.Add(compiled)
	}
	m.setStatusOwners(all)
	return &Compiled{Compiled: all}, nil
}

// setStatusOwners gives programs the status owners of the running ones.
func (m *Manager) setStatusOwners(compiled *compile.Compiled) {
	compiled.Programs = slices.Clone(compiled.Programs)
	for i := range compiled.Programs {
		compiled.Programs[i].StatusOwners = m.controllers.ActiveStatusOwners(&compiled.Programs[i])
	}
}

// DryRunTools returns the tools of programs that store nothing: the API server receives their writes as dry runs.
func (m *Manager) DryRunTools() controller.Dependencies {
	return controller.Dependencies{Store: m.Store, Writer: m.dryRunWriter(), Access: m.Permissions.Accounts, Log: m.Log,
		Resolve: m.Resolver.Resolve, Known: m.Resolver.Known.Find}
}

func (m *Manager) dryRunWriter() *apply.Writer {
	return apply.New(m.Client, apply.Options{DryRun: true}).WithManagedFields()
}

// Get returns a stored object; nil if it does not exist.
func (m *Manager) Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	stored, err := m.dryRunWriter().Get(ctx, resource, namespace, name)
	if apply.NotFound(err) {
		return nil, nil //nolint:nilnil // The object does not exist.
	}
	return stored, err
}

// Close closes a Manager that does not run.
func (m *Manager) Close() {
	m.Events.Close()
	m.Store.Close()
}

// Preflight returns why this Manager, which need not run, must not run controllers of a dev run: another
// controller of the cluster has the same objects, or permissions are missing. The objects are manifests, with
// controllers and CRDs that need not be stored. What is invalid is not checked; it is reported when it is applied.
func (m *Manager) Preflight(ctx context.Context, objects []*object.Object) error {
	definitions := slices.DeleteFunc(slices.Clone(objects), func(o *object.Object) bool { return o.Kind() != crds.Resource.Kind })
	defined, err := definedResources(definitions)
	if err != nil {
		return err
	}
	m.Resolver.Defined = defined
	defer func() { m.Resolver.Defined = nil }()
	others, err := m.Others.List(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, o := range objects {
		if err := m.preflight(ctx, o, others); err != nil {
			problems = append(problems, fmt.Errorf("%s/%s: %w", strings.ToLower(o.Kind()), o.Name(), err))
		}
	}
	return errors.Join(problems...)
}

// definedResources returns the resources of CRDs.
func definedResources(definitions []*object.Object) ([]object.Resource, error) {
	var all []object.Resource
	for _, o := range definitions {
		served, err := schema.OfCRD(o.JSON())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Ref(), err)
		}
		for i := range served {
			all = append(all, served[i].Resource())
		}
	}
	return all, nil
}

// preflight checks one controller object.
func (m *Manager) preflight(ctx context.Context, o *object.Object, others []conflicts.Other) error {
	kind, known := compile.KindOf(o)
	if !known {
		return nil
	}
	if kind.Metacontroller() {
		if _, err := m.Metacontrollers.Check(ctx, o); err != nil {
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
			return other.Refusal().Err
		}
	}
	return m.Permissions.Check(ctx, kind.Resource, compiled)
}

// User returns the name of the user of a configuration, or that it is unknown.
func User(ctx context.Context, config *rest.Config) string {
	client, err := newClient(Options{Config: config}.withDefaults())
	if err != nil {
		return "an unknown user"
	}
	return cmp.Or(rbac.Username(ctx, client), "an unknown user")
}

// refusal returns why a valid controller object does not run: what its condition Accepted says or, if that is missing
// or of an earlier generation, what conflicts in the cluster. The notes name what could not be checked.
func (m *Manager) refusal(ctx context.Context, declared *object.Object, compiled *compile.Compiled) (why *compile.Refusal, notes []string,
	err error) {
	condition := meta.FindStatusCondition(compile.StoredStatus(declared).Conditions, setpoint.ConditionAccepted)
	if condition != nil && condition.ObservedGeneration == declared.Generation() {
		if condition.Status == metav1.ConditionFalse {
			why = &compile.Refusal{Reason: condition.Reason, Err: errors.New(condition.Message)}
		}
		return why, nil, nil
	}
	if kind, _ := compile.KindOf(declared); kind.Metacontroller() {
		notes, err = m.Metacontrollers.Check(ctx, declared)
		if refused, is := errors.AsType[*compile.Refusal](err); is {
			return refused, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	why, err = m.Others.CheckOlder(ctx, declared, compiled)
	return why, notes, err
}

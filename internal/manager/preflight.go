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
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
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
		note, err := m.Metacontrollers.Check(ctx, declared)
		if refused, is := errors.AsType[*compile.Refusal](err); is {
			return refused, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if note != "" {
			notes = []string{note}
		}
	}
	why, err = m.Others.CheckOlder(ctx, declared, compiled)
	return why, notes, err
}

package compile

import (
	"cmp"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

func readSetpoint(k Kind, o *object.Object, env Environment) (*declared, error) {
	var controller struct {
		Spec controllerSpec `json:"spec"`
	}
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	hooks, err := readSetpointHooks(spec.Hooks, spec.EndpointConfigs)
	if err != nil {
		return nil, err
	}
	revisions, err := readPaths(spec.ParentResource.RevisionHistory.FieldPaths, object.ParsePath)
	if err != nil {
		return nil, err
	}
	d := &declared{
		targets:    spec.targets(k),
		hooks:      hooks,
		suspended:  spec.Suspend,
		identity:   spec.Identity,
		rollout:    spec.Rollout,
		conditions: !k.isDecorator() && !spec.ParentResource.OmitConditions,
		program: composite.Program{
			GenerateSelector: spec.GenerateSelector,
			FullObjects:      spec.FullObjects,
			Resync:           time.Duration(spec.ResyncPeriodSeconds) * time.Second,
			DeletionLimit:    setpointDeletionLimit(spec.DeletionGuard),
			Revisions:        composite.Revisions{FieldPaths: revisions},
			LastApplied:      plan.AppliedFieldsAnnotation,
			OmitValues:       true,
		},
	}
	for i, c := range append(spec.ChildResources, spec.Attachments...) {
		one := child{resourceRef: resourceRef{index(k.childrenField(), i), c.APIVersion, c.Resource}, rule: ruleOf(c)}
		if err := env.addExpressions(one.field, c.UpdateStrategy, &one.rule); err != nil {
			return nil, err
		}
		d.children = append(d.children, one)
	}
	return d, nil
}

func readSetpointHooks(declared api.Hooks, configs []api.EndpointConfig) (hooks, error) {
	h, err := readHooks(&declared.Sync, declared.Finalize, declared.Customize, readSetpointHook)
	if err != nil {
		return h, err
	}
	return h, h.all().complete(configs)
}

func readSetpointHook(of callOf, declared *api.Hook) (*hookConfig, error) {
	h, err := readCall(of, &declared.HookCall)
	if err != nil {
		return nil, err
	}
	h.wire.Version = hook.V2
	if cmp.Or(declared.Version, api.DefaultHookVersion) == api.HookV1 {
		h.wire.Version = hook.V1
	}
	return h, nil
}

// complete adds what hooks take from other parts of the spec: credentials and code.
func (all hookConfigs) complete(endpoints []api.EndpointConfig) error {
	if err := all.applyEndpoints(endpoints); err != nil {
		return err
	}
	return all.resolveCode()
}

// readList reads a list whose items have a hook each, and how each is called.
func readList[D, T any](list string, declared []D, endpoints []api.EndpointConfig,
	read func(field string, one *D) (T, *hookConfig, error)) ([]T, hookConfigs, error) {
	var all []T
	var configs hookConfigs
	for i := range declared {
		one, config, err := read(index(list, i), &declared[i])
		if err != nil {
			return nil, nil, err
		}
		all, configs = append(all, one), append(configs, config)
	}
	return all, configs, configs.complete(endpoints)
}

// setpointDeletionLimit returns the deletion limit in a spec; nil for none.
func setpointDeletionLimit(declared api.DeletionGuard) *plan.DeletionLimit {
	if declared.Mode == api.DeletionGuardDisabled {
		return nil
	}
	guard := plan.DefaultDeletionLimit()
	if n := declared.MaxDeletions; n != nil {
		guard.MaxDeletions = int(*n)
	}
	if n := declared.MaxPercent; n != nil {
		guard.MaxPercent = int(*n)
	}
	return guard
}

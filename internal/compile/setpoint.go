package compile

import (
	"cmp"
	"time"

	"k8s.io/utils/ptr"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
)

func readSetpoint(k Kind, o *object.Object, env Environment) (*neutralSpec, error) {
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
	d := &neutralSpec{
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
			Revisions:        rolling.Revisions{FieldPaths: revisions},
			LastApplied:      plan.AppliedFieldsAnnotation,
			OmitValues:       true,
		},
	}
	for i, c := range append(spec.ChildResources, spec.Attachments...) {
		one := childRule{resourceRef: resourceRef{index(k.childrenField(), i), c.APIVersion, c.Resource}, rule: ruleOf(c)}
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

// setpointDeletionLimit returns the deletion limit in a spec; nil for none.
func setpointDeletionLimit(declared api.DeletionGuard) *plan.DeletionLimit {
	if declared.Mode == api.DeletionGuardDisabled {
		return nil
	}
	limit := plan.DefaultDeletionLimit()
	limit.MaxDeletions = int(ptr.Deref(declared.MaxDeletions, int32(limit.MaxDeletions)))
	limit.MaxPercent = int(ptr.Deref(declared.MaxPercent, int32(limit.MaxPercent)))
	return limit
}

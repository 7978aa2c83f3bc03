package compile

import (
	"cmp"
	"strings"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// setpointKind is a kind of setpoint.dev.
func setpointKind(plural, kind string, compile compileFunc) Kind {
	lower := strings.ToLower(kind)
	return kindOf(api.GroupVersion, plural, kind, compile, conventions{
		finalizerPrefix: "setpoint.dev/" + lower + "-",
		managerPrefix:   "setpoint-" + lower + "-",
		mark:            plan.DecoratorMark,
	})
}

// setpointSpec is the spec of a CompositeController or a DecoratorController, which calls the
// parents and children by other names.
type setpointSpec struct {
	api.CompositeControllerSpec `json:",inline"`

	Resources   []setpointParent    `json:"resources"`
	Attachments []api.ChildResource `json:"attachments"`
}

type setpointParent struct {
	api.ParentResource `json:",inline"`

	AnnotationSelector *api.AnnotationSelector `json:"annotationSelector"`
}

func readSetpoint(k Kind, o *object.Object, env Environment) (*declared, error) {
	var controller struct {
		Spec setpointSpec `json:"spec"`
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
			LastApplied:      "setpoint.dev/applied-fields",
			OmitValues:       true,
		},
	}
	for field, r := range each(k.isDecorator(), "spec.resources", spec.Resources, "spec.parentResource",
		setpointParent{ParentResource: spec.ParentResource}) {
		d.targets = append(d.targets, target{
			resourceRef:        resourceRef{field, r.APIVersion, r.Resource},
			labels:             r.LabelSelector,
			annotations:        r.AnnotationSelector,
			namespaces:         r.Namespaces,
			syncOnStatusChange: r.SyncOnStatusChange,
		})
	}
	for i, c := range append(spec.ChildResources, spec.Attachments...) {
		one := child{resourceRef: resourceRef{index(k.childrenField(), i), c.APIVersion, c.Resource}, rule: setpointRule(c)}
		if err := env.addExpressions(one.field, c.UpdateStrategy, &one.rule); err != nil {
			return nil, err
		}
		d.children = append(d.children, one)
	}
	return d, nil
}

func setpointRule(c api.ChildResource) plan.Rule {
	rule := plan.Rule{
		Method:         plan.UpdateMethod(cmp.Or(c.UpdateStrategy.Method, api.DefaultUpdateMethod)),
		Strategy:       plan.ApplyStrategy(cmp.Or(c.Apply, api.DefaultApplyStrategy)),
		MaxUnavailable: int(c.UpdateStrategy.MaxUnavailable),
	}
	if checks := c.UpdateStrategy.StatusChecks; checks != nil {
		for _, check := range checks.Conditions {
			rule.StatusChecks = append(rule.StatusChecks, plan.StatusCheck(check))
		}
	}
	return rule
}

func readSetpointHooks(declared api.Hooks, configs []api.EndpointConfig) (hooks, error) {
	var h hooks
	for _, one := range []struct {
		name     string
		declared *api.Hook
		into     **hookConfig
	}{
		{"sync", &declared.Sync, &h.sync}, {"finalize", declared.Finalize, &h.finalize}, {"customize", declared.Customize, &h.customize},
	} {
		if one.declared == nil {
			continue
		}
		read, err := readCall(callOf{"spec.hooks." + one.name, one.name, one.name}, &one.declared.HookCall)
		if err != nil {
			return h, err
		}
		read.wire.Version = hook.V2
		if cmp.Or(one.declared.Version, api.DefaultHookVersion) == api.HookV1 {
			read.wire.Version = hook.V1
		}
		*one.into = read
	}
	return h, h.all().complete(configs)
}

// complete adds what hooks take from other parts of the spec: credentials and code.
func (all hookConfigs) complete(endpoints []api.EndpointConfig) error {
	if err := all.applyEndpoints(setpointEndpoints(endpoints)); err != nil {
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

func setpointEndpoints(configs []api.EndpointConfig) []endpoint {
	endpoints := make([]endpoint, len(configs))
	for i := range configs {
		endpoints[i] = endpoint{index("spec.endpointConfigs", i), configs[i].Host, credential.Spec(configs[i].ConnectionSettings)}
	}
	return endpoints
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

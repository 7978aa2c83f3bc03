package compile

import (
	"cmp"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// setpointComposite is the CompositeController of setpoint.dev.
func setpointComposite() Kind {
	k := kindOf(api.GroupVersion, api.CompositeControllerResource, api.CompositeControllerKind)
	k.conventions, k.read = setpointConventions("compositecontroller"), readSetpointComposite
	return k
}

func readSetpointComposite(o *object.Object, _ Environment) (*declared, error) {
	var controller api.CompositeController
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	hooks, err := readSetpointHooks(spec.Hooks, spec.EndpointConfigs)
	if err != nil {
		return nil, err
	}
	parent := spec.ParentResource
	revisions, err := readPaths(parent.RevisionHistory.FieldPaths, object.ParsePath)
	if err != nil {
		return nil, err
	}
	d := &declared{
		targets: []target{{
			resourceRef:        resourceRef{"spec.parentResource", parent.APIVersion, parent.Resource},
			labels:             parent.LabelSelector,
			syncOnStatusChange: parent.SyncOnStatusChange,
		}},
		hooks:            hooks,
		generateSelector: spec.GenerateSelector,
		revisions:        revisions,
		resync:           time.Duration(spec.ResyncPeriodSeconds) * time.Second,
		suspended:        spec.Suspend,
		fullObjects:      spec.FullObjects,
		conditions:       !parent.OmitConditions,
		deletionLimit:    setpointDeletionLimit(spec.DeletionGuard),
	}
	for i, c := range spec.ChildResources {
		d.children = append(d.children, child{
			resourceRef: resourceRef{index("spec.childResources", i), c.APIVersion, c.Resource},
			rule:        setpointRule(c),
		})
	}
	return d, nil
}

func setpointRule(c api.ChildResource) plan.Rule {
	rule := plan.Rule{
		Method:         plan.UpdateMethod(cmp.Or(c.UpdateStrategy.Method, api.DefaultUpdateMethod)),
		Strategy:       setpointStrategy(c.Apply),
		MaxUnavailable: int(c.UpdateStrategy.MaxUnavailable),
	}
	if checks := c.UpdateStrategy.StatusChecks; checks != nil {
		for _, check := range checks.Conditions {
			rule.StatusChecks = append(rule.StatusChecks, plan.StatusCheck(check))
		}
	}
	return rule
}

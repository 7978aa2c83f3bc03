package compile

import (
	"cmp"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// setpointDecorator is the DecoratorController of setpoint.dev.
func setpointDecorator() Kind {
	k := kindOf(api.GroupVersion, api.DecoratorControllerResource, api.DecoratorControllerKind)
	k.conventions, k.read = setpointConventions("decoratorcontroller"), readSetpointDecorator
	k.conventions.isDecorator = true
	return k
}

func readSetpointDecorator(o *object.Object, _ Environment) (*declared, error) {
	var controller api.DecoratorController
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	hooks, err := readSetpointHooks(spec.Hooks, spec.EndpointConfigs)
	if err != nil {
		return nil, err
	}
	d := &declared{
		hooks:         hooks,
		resync:        time.Duration(spec.ResyncPeriodSeconds) * time.Second,
		suspended:     spec.Suspend,
		fullObjects:   spec.FullObjects,
		deletionLimit: setpointDeletionLimit(spec.DeletionGuard),
	}
	for i, r := range spec.Resources {
		t := target{
			resourceRef:        resourceRef{index("spec.resources", i), r.APIVersion, r.Resource},
			labels:             r.LabelSelector,
			syncOnStatusChange: r.SyncOnStatusChange,
		}
		if s := r.AnnotationSelector; s != nil {
			t.annotations = &annotationSelector{s.MatchAnnotations, s.MatchExpressions}
		}
		d.targets = append(d.targets, t)
	}
	for i, a := range spec.Attachments {
		d.children = append(d.children, child{
			resourceRef: resourceRef{index("spec.attachments", i), a.APIVersion, a.Resource},
			rule: plan.Rule{
				Method:   plan.UpdateMethod(cmp.Or(a.UpdateStrategy.Method, api.AttachmentUpdateMethod(api.DefaultUpdateMethod))),
				Strategy: setpointStrategy(a.Apply),
			},
		})
	}
	return d, nil
}

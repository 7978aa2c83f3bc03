package compile

import (
	"cmp"
	"strings"

	api "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// metacontrollerDecorator is the DecoratorController of Metacontroller.
func metacontrollerDecorator() Kind {
	k := kindOf(api.GroupVersion, api.DecoratorControllerResource, api.DecoratorControllerKind)
	k.conventions, k.read = metacontrollerConventions("decoratorcontroller"), readMetacontrollerDecorator
	k.conventions.isDecorator = true
	return k
}

func readMetacontrollerDecorator(o *object.Object, env Environment) (*declared, error) {
	var controller api.DecoratorController
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	declaredHooks := valueOr(spec.Hooks, api.DecoratorHooks{})
	hooks, err := readMetacontrollerHooks(declaredHooks.Sync, declaredHooks.Finalize, declaredHooks.Customize, spec.EndpointConfigs)
	if err != nil {
		return nil, err
	}
	if len(spec.Resources) == 0 {
		return nil, invalid("spec.resources: required; it names the objects to decorate")
	}
	d := &declared{hooks: hooks, resync: metacontrollerResync(spec.ResyncPeriodSeconds), deletionLimit: metacontrollerDeletionLimit(env), fullObjects: hasFullObjects(o)}
	for i, r := range spec.Resources {
		t := target{
			resourceRef:        resourceRef{index("spec.resources", i), r.APIVersion, r.Resource},
			labels:             r.LabelSelector,
			syncOnStatusChange: !valueOr(r.IgnoreStatusChanges, defaultIgnoreStatusChanges),
		}
		if s := r.AnnotationSelector; s != nil {
			t.annotations = &annotationSelector{s.MatchAnnotations, s.MatchExpressions}
		}
		d.targets = append(d.targets, t)
	}
	for i, a := range spec.Attachments {
		field := index("spec.attachments", i)
		method, note := attachmentMethod(field, valueOr(a.UpdateStrategy, api.AttachmentUpdateStrategy{}).Method)
		d.notes = append(d.notes, note...)
		d.children = append(d.children, child{
			resourceRef: resourceRef{field, a.APIVersion, a.Resource},
			rule:        plan.Rule{Method: method, Strategy: cmp.Or(env.ApplyStrategy, plan.Merge)},
		})
	}
	return d, nil
}

// attachmentMethod replaces rolling methods by the plain ones: attachments have no revisions.
func attachmentMethod(field string, declared api.UpdateMethod) (method plan.UpdateMethod, note []string) {
	method = plan.UpdateMethod(cmp.Or(declared, api.UpdateOnDelete))
	if !method.Rolling() {
		return method, nil
	}
	plain := plan.UpdateMethod(strings.TrimPrefix(string(method), "Rolling"))
	return plain, []string{field + ".updateStrategy.method: " + string(method) + " does the same as " + string(plain) + " here: attachments have no revisions"}
}

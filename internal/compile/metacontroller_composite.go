package compile

import (
	"cmp"

	api "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// metacontrollerComposite is the CompositeController of Metacontroller.
func metacontrollerComposite() Kind {
	k := kindOf(api.GroupVersion, api.CompositeControllerResource, api.CompositeControllerKind)
	k.conventions, k.read = metacontrollerConventions("compositecontroller"), readMetacontrollerComposite
	return k
}

func readMetacontrollerComposite(o *object.Object, env Environment) (*declared, error) {
	var controller api.CompositeController
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	declaredHooks := valueOr(spec.Hooks, api.Hooks{})
	hooks, err := readMetacontrollerHooks(declaredHooks.Sync, declaredHooks.Finalize, declaredHooks.Customize, spec.EndpointConfigs)
	if err != nil {
		return nil, err
	}
	parent := spec.ParentResource
	revisions, err := readPaths(valueOr(parent.RevisionHistory, api.RevisionHistory{}).FieldPaths, parseDottedPath)
	if err != nil {
		return nil, err
	}
	d := &declared{
		targets: []target{{
			resourceRef:        resourceRef{"spec.parentResource", parent.APIVersion, parent.Resource},
			labels:             parent.LabelSelector,
			syncOnStatusChange: !valueOr(parent.IgnoreStatusChanges, defaultIgnoreStatusChanges),
		}},
		hooks:            hooks,
		generateSelector: valueOr(spec.GenerateSelector, false),
		revisions:        revisions,
		resync:           metacontrollerResync(spec.ResyncPeriodSeconds),
		notes:            unusedHookNotes(declaredHooks),
		deletionLimit:    metacontrollerDeletionLimit(env),
		fullObjects:      hasFullObjects(o),
	}
	for i, c := range spec.ChildResources {
		d.children = append(d.children, child{
			resourceRef: resourceRef{index("spec.childResources", i), c.APIVersion, c.Resource},
			rule:        metacontrollerRule(c.UpdateStrategy, env),
		})
	}
	return d, nil
}

// metacontrollerRule has Metacontroller's defaults: existing children are not updated.
func metacontrollerRule(declared *api.UpdateStrategy, env Environment) plan.Rule {
	s := valueOr(declared, api.UpdateStrategy{})
	rule := plan.Rule{Method: plan.UpdateMethod(cmp.Or(s.Method, api.UpdateOnDelete)), Strategy: cmp.Or(env.ApplyStrategy, plan.Merge)}
	for _, check := range valueOr(s.StatusChecks, api.StatusChecks{}).Conditions {
		rule.StatusChecks = append(rule.StatusChecks, plan.StatusCheck{Type: check.Type, Status: valueOr(check.Status, ""), Reason: valueOr(check.Reason, "")})
	}
	return rule
}

// unusedHookNotes notes hooks that Metacontroller never calls either.
func unusedHookNotes(declared api.Hooks) []string {
	var notes []string
	for _, one := range []struct {
		name     string
		declared *api.Hook
	}{{"preUpdateChild", declared.PreUpdateChild}, {"postUpdateChild", declared.PostUpdateChild}} {
		if one.declared != nil && one.declared.Webhook != nil {
			notes = append(notes, "spec.hooks."+one.name+" is never called, as in Metacontroller")
		}
	}
	return notes
}

package compile

import (
	"cmp"

	api "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// metacontrollerComposite is the CompositeController that Metacontroller's users
// have.
func metacontrollerComposite() Kind {
	k := kindOf(api.GroupVersion, api.CompositeControllerResource, api.CompositeControllerKind)
	k.manner, k.read = metacontrollerManner("compositecontroller"), readMetacontrollerComposite
	return k
}

func readMetacontrollerComposite(o *object.Object, env Environment) (*declared, error) {
	var controller api.CompositeController
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	declaredHooks := or(spec.Hooks, api.Hooks{})
	hooks, err := readMetacontrollerHooks(declaredHooks.Sync, declaredHooks.Finalize, declaredHooks.Customize, spec.EndpointConfigs)
	if err != nil {
		return nil, err
	}
	parent := spec.ParentResource
	revisions, err := readPaths(or(parent.RevisionHistory, api.RevisionHistory{}).FieldPaths, dotted)
	if err != nil {
		return nil, err
	}
	d := &declared{
		targets: []target{{
			named:       named{"spec.parentResource", parent.APIVersion, parent.Resource},
			labels:      parent.LabelSelector,
			statusWakes: !or(parent.IgnoreStatusChanges, ignoresStatusChanges),
		}},
		hooks:            hooks,
		generateSelector: or(spec.GenerateSelector, false),
		revisions:        revisions,
		resync:           metacontrollerResync(spec.ResyncPeriodSeconds),
		notes:            neverCalled(declaredHooks),
		guard:            metacontrollerGuard(env),
		whole:            wantsFullObjects(o),
	}
	for i, c := range spec.ChildResources {
		d.children = append(d.children, child{
			named: named{index("spec.childResources", i), c.APIVersion, c.Resource},
			rule:  metacontrollerRule(c.UpdateStrategy, env),
		})
	}
	return d, nil
}

// metacontrollerRule gives the defaults of the published kind: existing children
// are left alone.
func metacontrollerRule(declared *api.UpdateStrategy, env Environment) plan.Rule {
	s := or(declared, api.UpdateStrategy{})
	rule := plan.Rule{Method: plan.Method(cmp.Or(s.Method, api.UpdateOnDelete)), Strategy: cmp.Or(env.ApplyStrategy, plan.Merge)}
	for _, check := range or(s.StatusChecks, api.StatusChecks{}).Conditions {
		rule.Checks = append(rule.Checks, plan.Check{Type: check.Type, Status: or(check.Status, ""), Reason: or(check.Reason, "")})
	}
	return rule
}

// neverCalled notes the hooks that the published kind has and nobody asks.
func neverCalled(declared api.Hooks) []string {
	var notes []string
	for _, one := range []struct {
		name     string
		declared *api.Hook
	}{{"preUpdateChild", declared.PreUpdateChild}, {"postUpdateChild", declared.PostUpdateChild}} {
		if one.declared != nil && one.declared.Webhook != nil {
			notes = append(notes, "spec.hooks."+one.name+" is never asked, as with Metacontroller")
		}
	}
	return notes
}

package compile

import (
	"cmp"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// setpointComposite is the kind of our own group.
func setpointComposite() Kind {
	return compositeKind(api.GroupVersion, api.CompositeControllerResource, api.CompositeControllerKind, readSetpointComposite)
}

func readSetpointComposite(o *object.Object) (composite, error) {
	var declared api.CompositeController
	if err := readSpec(o, &declared); err != nil {
		return composite{}, err
	}
	spec := declared.Spec
	sync, err := readSetpointHook(spec.Hooks.Sync)
	if err != nil {
		return composite{}, err
	}
	c := composite{
		parent:           named{spec.ParentResource.APIVersion, spec.ParentResource.Resource},
		parentLabels:     spec.ParentResource.LabelSelector,
		statusWakes:      spec.ParentResource.SyncOnStatusChange,
		sync:             sync,
		generateSelector: spec.GenerateSelector,
		resync:           time.Duration(spec.ResyncPeriodSeconds) * time.Second,
		lastApplied:      "setpoint.dev/applied-fields",
		outline:          true,
	}
	for _, rule := range spec.ChildResources {
		c.children = append(c.children, child{
			named:  named{rule.APIVersion, rule.Resource},
			method: plan.Method(cmp.Or(rule.UpdateStrategy.Method, api.DefaultUpdateMethod)),
		})
	}
	return c, nil
}

func readSetpointHook(h api.Hook) (syncHook, error) {
	w := h.Webhook
	if w == nil {
		return syncHook{}, invalid("spec.hooks.sync.webhook: required")
	}
	s := syncHook{
		version:  hook.V2,
		decoding: hook.Strict,
		url:      w.URL,
		timeout:  cmp.Or(w.Timeout.Duration, api.DefaultTimeout),
	}
	if cmp.Or(h.Version, api.DefaultHookVersion) == api.HookV1 {
		s.version = hook.V1
	}
	if cmp.Or(w.Decoding, api.DefaultDecoding) == api.DecodingLoose {
		s.decoding = hook.Loose
	}
	if w.Service == nil {
		return s, nil
	}
	protocol := cmp.Or(w.Service.Protocol, api.DefaultProtocol)
	port := w.Service.Port
	if port == 0 && protocol == api.ProtocolHTTPS {
		port = 443
	}
	s.url = serviceURL(string(protocol), w.Service.Name, w.Service.Namespace, cmp.Or(port, 80), w.Path)
	return s, nil
}

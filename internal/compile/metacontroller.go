package compile

import (
	"cmp"
	"strconv"
	"time"

	api "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// metacontrollerComposite is the kind that Metacontroller's users have.
func metacontrollerComposite() Kind {
	return compositeKind(api.GroupVersion, api.CompositeControllerResource, api.CompositeControllerKind, readMetacontrollerComposite)
}

func readMetacontrollerComposite(o *object.Object) (composite, error) {
	var declared api.CompositeController
	if err := readSpec(o, &declared); err != nil {
		return composite{}, err
	}
	spec := &declared.Spec
	if err := refuseComposite(spec); err != nil {
		return composite{}, err
	}
	sync, err := readMetacontrollerHook(spec.Hooks.Sync)
	if err != nil {
		return composite{}, err
	}
	c := composite{
		parent:           named{spec.ParentResource.APIVersion, spec.ParentResource.Resource},
		parentLabels:     spec.ParentResource.LabelSelector,
		statusWakes:      !or(spec.ParentResource.IgnoreStatusChanges, true),
		sync:             sync,
		generateSelector: or(spec.GenerateSelector, false),
		lastApplied:      "metacontroller.k8s.io/last-applied-configuration",
	}
	if seconds := spec.ResyncPeriodSeconds; seconds != nil {
		c.resync = time.Duration(max(*seconds, 1)) * time.Second
	}
	for i, rule := range spec.ChildResources {
		method, err := readMethod(i, rule.UpdateStrategy)
		if err != nil {
			return composite{}, err
		}
		c.children = append(c.children, child{named{rule.APIVersion, rule.Resource}, method})
	}
	return c, nil
}

// refuseComposite says what of the published kind this release does not do.
func refuseComposite(spec *api.CompositeControllerSpec) error {
	hooks := spec.Hooks
	switch {
	case hooks == nil || hooks.Sync == nil || hooks.Sync.Webhook == nil:
		return invalid("spec.hooks.sync.webhook: required")
	case enabled(hooks.Finalize):
		return unsupported("spec.hooks.finalize")
	case enabled(hooks.Customize):
		return unsupported("spec.hooks.customize")
	case len(spec.EndpointConfigs) > 0:
		return unsupported("spec.endpointConfigs")
	}
	return refuseConnection("spec.hooks.sync.webhook", hooks.Sync.Webhook)
}

func enabled(h *api.Hook) bool { return h != nil && h.Webhook != nil }

func refuseConnection(field string, w *api.Webhook) error {
	switch {
	case w.CABundle != nil:
		return unsupported(field + ".caBundle")
	case w.ClientTLS != nil:
		return unsupported(field + ".clientTLS")
	case w.Authorization != nil:
		return unsupported(field + ".authorization")
	case w.BasicAuth != nil:
		return unsupported(field + ".basicAuth")
	case w.ETag != nil && or(w.ETag.Enabled, false):
		return unsupported(field + ".etag")
	}
	return nil
}

// readMethod gives the default of the published kind: existing children are
// left alone.
func readMethod(i int, strategy *api.UpdateStrategy) (plan.Method, error) {
	if strategy == nil {
		return plan.OnDelete, nil
	}
	switch method := cmp.Or(strategy.Method, api.UpdateOnDelete); method {
	case api.UpdateOnDelete, api.UpdateRecreate, api.UpdateInPlace:
		return plan.Method(method), nil
	default:
		return "", unsupported("spec.childResources[" + strconv.Itoa(i) + "].updateStrategy.method: " + string(method))
	}
}

func readMetacontrollerHook(h *api.Hook) (syncHook, error) {
	w := h.Webhook
	s := syncHook{version: hook.V1, decoding: hook.Loose}
	if h.Version == api.HookV2 {
		s.version, s.decoding = hook.V2, hook.StrictOptional
	}
	switch w.ResponseUnMarshallMode {
	case api.ResponseUnMarshallStrict:
		s.decoding = hook.StrictOptional
	case api.ResponseUnMarshallLoose:
		s.decoding = hook.Loose
	}
	if w.Timeout != nil {
		s.timeout = w.Timeout.Duration
	}
	switch {
	case w.URL != nil:
		s.url = *w.URL
	case w.Service != nil && w.Path != nil:
		s.url = serviceURL(or(w.Service.Protocol, "http"), w.Service.Name, w.Service.Namespace, or(w.Service.Port, 80), *w.Path)
	default:
		return s, invalid("spec.hooks.sync.webhook: set url, or service and path")
	}
	return s, nil
}

// or is what an optional field means.
func or[T any](field *T, unset T) T {
	if field == nil {
		return unset
	}
	return *field
}

package compile

import (
	"cmp"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// setpointConventions returns the conventions of a kind of setpoint.dev.
func setpointConventions(lower string) conventions {
	return conventions{
		finalizerPrefix: "setpoint.dev/" + lower + "-",
		managerPrefix:   "setpoint-" + lower + "-",
		mark:            plan.DecoratorMark,
		lastApplied:     "setpoint.dev/applied-fields",
		omitValues:      true,
	}
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
		field := "spec.hooks." + one.name + ".webhook"
		switch {
		case one.declared == nil:
		case one.declared.Webhook == nil:
			return h, invalid("%s: required", field)
		default:
			*one.into = readSetpointHook(field, one.declared)
		}
	}
	if err := h.all().applyEndpoints(setpointEndpoints(configs)); err != nil {
		return hooks{}, err
	}
	return h, nil
}

func setpointEndpoints(configs []api.EndpointConfig) []endpoint {
	endpoints := make([]endpoint, len(configs))
	for i := range configs {
		endpoints[i] = endpoint{index("spec.endpointConfigs", i), configs[i].Host, credentialsOf(&configs[i].ConnectionSettings)}
	}
	return endpoints
}

func readSetpointHook(field string, declared *api.Hook) *hookConfig {
	h := readSetpointWebhook(field, declared.Webhook)
	h.version = hook.V2
	if cmp.Or(declared.Version, api.DefaultHookVersion) == api.HookV1 {
		h.version = hook.V1
	}
	return h
}

func readSetpointWebhook(field string, w *api.Webhook) *hookConfig {
	h := &hookConfig{
		field:       field,
		decoding:    hook.Strict,
		url:         w.URL,
		timeout:     cmp.Or(w.Timeout.Duration, api.DefaultTimeout),
		etag:        webhook.ETag{Enabled: w.ETag.Enabled, Timeout: time.Duration(w.ETag.CacheTimeoutSeconds) * time.Second},
		credentials: credentialsOf(&w.ConnectionSettings),
	}
	if cmp.Or(w.Decoding, api.DefaultDecoding) == api.DecodingLoose {
		h.decoding = hook.Loose
	}
	if w.Service == nil {
		return h
	}
	protocol := cmp.Or(w.Service.Protocol, api.DefaultProtocol)
	port := w.Service.Port
	if port == 0 && protocol == api.ProtocolHTTPS {
		port = 443
	}
	h.url = serviceURL(string(protocol), w.Service.Name, w.Service.Namespace, cmp.Or(port, 80), w.Path)
	return h
}

func setpointStrategy(s api.ApplyStrategy) plan.ApplyStrategy {
	return plan.ApplyStrategy(cmp.Or(s, api.DefaultApplyStrategy))
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

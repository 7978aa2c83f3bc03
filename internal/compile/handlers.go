package compile

import (
	"cmp"
	"slices"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schedule"
)

// handler is a handler with its hook.
type handler struct {
	handle.Handler

	hookConfig *hookConfig
}

func handlerHooks(handlers []handler) hookConfigs {
	var all hookConfigs
	for _, h := range handlers {
		all = append(all, h.hookConfig)
	}
	return all
}

func readHandlers(spec *api.HandlerControllerSpec) ([]handler, error) {
	var all []handler
	for i := range spec.Handlers {
		field := index("spec.handlers", i)
		read, err := readHandler(field, &spec.Handlers[i])
		if err != nil {
			return nil, err
		}
		if slices.Contains(read.On, hook.ReasonDrift) && len(spec.Owns) == 0 {
			return nil, invalid("%s.reasons: Drift requires spec.owns", field)
		}
		all = append(all, read)
	}
	if len(all) == 0 {
		return nil, invalid("spec.handlers: required")
	}
	return all, handlerHooks(all).applyEndpoints(setpointEndpoints(spec.EndpointConfigs))
}

func readHandler(field string, declared *api.Handler) (handler, error) {
	h := handle.Handler{
		Name:              declared.Name,
		Every:             declared.Every.Duration.Duration,
		Debounce:          declared.Debounce.Duration.Duration,
		Idle:              declared.Idle.Duration.Duration,
		Jitter:            declared.Jitter.Duration.Duration,
		Retries:           retries(declared.Retries),
		RetryTimeout:      declared.RetryTimeout.Duration.Duration,
		Backoff:           cmp.Or(declared.Backoff.Initial.Duration.Duration, api.DefaultBackoffInitial),
		MaxBackoff:        cmp.Or(declared.Backoff.Max.Duration.Duration, api.DefaultBackoffMax),
		Optional:          declared.Optional,
		KeepPreviousState: declared.PreviousState == api.PreviousStateControllerRevision,
	}
	for _, reason := range declared.Reasons {
		h.On = append(h.On, hook.Reason(reason))
	}
	for i, text := range declared.Fields {
		path, err := handle.ParseField(text)
		if err != nil {
			return handler{}, invalid("%s: %w", index(field+".fields", i), err)
		}
		h.Fields = append(h.Fields, path)
	}
	if declared.Schedule != "" {
		parsedSchedule, err := schedule.Parse(declared.Schedule)
		if err != nil {
			return handler{}, invalid("%s.schedule: %w", field, err)
		}
		h.Schedule = parsedSchedule
	}
	config, err := readHandlersWebhook(field, declared.Webhook)
	if err != nil {
		return handler{}, err
	}
	return handler{h, config}, checkTriggers(field, &h)
}

func readHandlersWebhook(field string, declared *api.Webhook) (*hookConfig, error) {
	field += ".webhook"
	switch {
	case declared == nil:
		return nil, invalid("%s: required", field)
	case declared.ETag.Enabled:
		return nil, invalid("%s.etag: handlers do not support etag: a response belongs to one request", field)
	}
	return readSetpointWebhook(field, declared), nil
}

// checkTriggers rejects a handler without triggers or with conflicting ones.
func checkTriggers(field string, h *handle.Handler) error {
	switch {
	case len(h.On) == 0 && h.Every == 0 && h.Schedule == nil:
		return invalid("%s: one of reasons, every and schedule is required", field)
	case h.Every != 0 && h.Schedule != nil:
		return invalid("%s: every and schedule are mutually exclusive", field)
	case h.Debounce != 0 && !slices.Contains(h.On, hook.ReasonUpdate):
		return invalid("%s.debounce: requires the reason Update", field)
	case h.KeepPreviousState && !slices.Contains(h.On, hook.ReasonUpdate):
		return invalid("%s.previousState: %s requires the reason Update", field, api.PreviousStateControllerRevision)
	}
	return nil
}

// checkPreviousState rejects kinds whose previous state must not be stored.
func checkPreviousState(handlers []handler, of object.Resource) error {
	for i := range handlers {
		if !handlers[i].KeepPreviousState {
			continue
		}
		if err := handle.ValidateKeepPreviousState(of.GroupKind()); err != nil {
			return invalid("%s.previousState: %w", index("spec.handlers", i), err)
		}
	}
	return nil
}

// retries converts a limit: in the spec 0 means no retries, in a program it means no limit.
func retries(declared *int32) int {
	switch {
	case declared == nil:
		return 0
	case *declared == 0:
		return -1
	}
	return int(*declared)
}

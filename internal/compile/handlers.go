package compile

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/controller/handler"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schedule"
)

// readHandlers reads the handlers, and how the hook of each is called.
func readHandlers(spec *api.HandlerControllerSpec, env Environment) ([]trigger.Handler, hookConfigs, error) {
	if len(spec.Handlers) == 0 && spec.Index == nil {
		return nil, nil, invalid("spec.handlers: required, unless the controller has an index")
	}
	read := func(field string, declared *api.Handler) (trigger.Handler, *hookConfig, error) {
		h, config, err := readHandler(field, declared)
		if err == nil {
			h.Expression, err = env.handlerWhen(field, declared.When)
		}
		h.IgnoredAnnotations = spec.IgnoredAnnotationPrefixes
		if err == nil && slices.Contains(h.On, hook.ReasonDrift) && len(spec.Owns) == 0 {
			err = invalid("%s.reasons: Drift requires spec.owns", field)
		}
		return h, config, err
	}
	return readList("spec.handlers", spec.Handlers, spec.EndpointConfigs, read)
}

func readHandler(field string, declared *api.Handler) (trigger.Handler, *hookConfig, error) {
	h := trigger.Handler{
		Name:              declared.Name,
		DisplayName:       declared.DisplayName,
		Every:             declared.Every.Duration.Duration,
		Debounce:          declared.Debounce.Duration.Duration,
		Idle:              declared.Idle.Duration.Duration,
		Jitter:            declared.Jitter.Duration.Duration,
		Retries:           retries(declared.Retries),
		RetryTimeout:      declared.RetryTimeout.Duration.Duration,
		Backoff:           cmp.Or(declared.Backoff.Initial.Duration.Duration, api.DefaultBackoffInitial),
		MaxBackoff:        cmp.Or(declared.Backoff.Max.Duration.Duration, api.DefaultBackoffMax),
		Optional:          declared.Optional,
		KeepPreviousState: declared.PreviousState.SurvivesRestart(),
		Conditional:       declared.Conditional,
		Sharp:             declared.Sharp,
	}
	if declared.InitialDelay != nil {
		h.FromFirstSeen, h.InitialDelay = true, declared.InitialDelay.Duration
	}
	if declared.Daemon != nil {
		h.Daemon, h.StopTimeout = handler.CallDaemon, cmp.Or(declared.Daemon.StopTimeout.Duration.Duration, handler.DefaultStopTimeout)
	}
	when, err := handlerCondition(field, declared)
	if err != nil {
		return h, nil, err
	}
	h.When = when
	for _, reason := range declared.Reasons {
		h.On = append(h.On, hook.Reason(reason))
	}
	for i, text := range declared.Fields {
		path, err := trigger.ParseField(text)
		if err != nil {
			return h, nil, invalid("%s: %w", index(field+".fields", i), err)
		}
		h.Fields = append(h.Fields, path)
	}
	if declared.Schedule != "" {
		parsedSchedule, err := schedule.Parse(declared.Schedule)
		if err != nil {
			return h, nil, invalid("%s.schedule: %w", field, err)
		}
		h.Schedule = parsedSchedule
	}
	config, err := readUncached(callOf{field, declared.Name, "handle"}, &declared.HookCall)
	switch {
	case err != nil:
		return h, nil, err
	case h.Daemon != nil && config.webhook == nil:
		return h, nil, invalid("%s.daemon: requires webhook: inline and exec hooks run nothing between calls", field)
	}
	err = checkTriggers(field, &h)
	return h, config, err
}

// handlerCondition returns the condition of a handler's selectors; nil for none.
func handlerCondition(field string, declared *api.Handler) (func(old, now *object.Object) bool, error) {
	selectors := target{resourceRef: resourceRef{field: field}, labels: declared.LabelSelector, annotations: declared.AnnotationSelector}
	selection, err := selectors.selection()
	if err != nil || selectsAll(selection) {
		return nil, err
	}
	return func(_, now *object.Object) bool { return selection.Matches(now) }, nil
}

// checkTriggers rejects a handler without triggers or with conflicting ones.
func checkTriggers(field string, h *trigger.Handler) error {
	switch {
	case len(h.On) == 0 && h.Every == 0 && h.Schedule == nil && h.Daemon == nil:
		return invalid("%s: one of reasons, every, schedule and daemon is required", field)
	case h.Daemon != nil && (len(h.On) > 0 || h.Every != 0 || h.Schedule != nil):
		return invalid("%s: daemon excludes reasons, every and schedule: use one handler for each", field)
	case h.FromFirstSeen && h.Every == 0:
		return invalid("%s.initialDelay: requires every", field)
	case h.InitialDelay < 0:
		return invalid("%s.initialDelay: must not be negative", field)
	case h.Sharp && !h.FromFirstSeen:
		return invalid("%s.sharp: requires initialDelay", field)
	case h.Every != 0 && h.Schedule != nil:
		return invalid("%s: every and schedule are mutually exclusive", field)
	case h.Debounce != 0 && !slices.Contains(h.On, hook.ReasonUpdate):
		return invalid("%s.debounce: requires the reason Update", field)
	case h.KeepPreviousState && !slices.Contains(h.On, hook.ReasonUpdate):
		return invalid("%s.previousState: %s requires the reason Update", field, api.PreviousStateRecord)
	}
	return nil
}

// checkPreviousState rejects kinds whose previous state must not be stored.
func checkPreviousState(handlers []trigger.Handler, of object.Resource) error {
	for i := range handlers {
		if !handlers[i].KeepPreviousState {
			continue
		}
		if err := trigger.ValidateKeepPreviousState(of.GroupKind()); err != nil {
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

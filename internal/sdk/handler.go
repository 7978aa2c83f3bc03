package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schedule"
)

// Handler is one handler: a function, its options, and when to call it.
type Handler struct {
	Name string
	// Spec is the handler as the program has it.
	Spec trigger.Handler
	// Once calls the function for a reason; Daemon runs it as long as its object matches. A handler has one of them.
	Once   hook.HandlerFunc
	Daemon trigger.Daemon

	// filters and predicates must all match.
	filters    []filter
	predicates []predicate
	// comparedFields are the fields that filters compare with the old object.
	comparedFields [][]string
	// optionReasons are the reasons that options require.
	optionReasons map[string]hook.Reason
	problems      []error
}

// Handle calls the function. It implements hook.Handler.
func (h *Handler) Handle(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	return h.Once(ctx, n)
}

// Changes returns the watched differences between two states of an object.
func (h *Handler) Changes(old, now json.RawMessage) ([]hook.FieldChange, error) {
	was, err := object.Parse(old)
	if err != nil {
		return nil, err
	}
	is, err := object.Parse(now)
	if err != nil {
		return nil, err
	}
	return h.Spec.Changes(was, is), nil
}

// program returns the handler as the program has it.
func (h *Handler) program() trigger.Handler {
	p := h.Spec
	p.Name, p.When = h.Name, h.predicate()
	if h.Daemon != nil {
		p.Daemon = h.Daemon
	} else {
		p.Do = h
	}
	return p
}

// AddProblem adds what is wrong with the options.
func (h *Handler) AddProblem(format string, args ...any) {
	h.problems = append(h.problems, fmt.Errorf(format, args...))
}

// AddReason calls the handler for a reason.
func (h *Handler) AddReason(reason hook.Reason) {
	if !slices.Contains(h.Spec.On, reason) {
		h.Spec.On = append(h.Spec.On, reason)
	}
}

// SetInterval calls the handler at an interval.
func (h *Handler) SetInterval(interval time.Duration) {
	if interval <= 0 {
		h.AddProblem("Every(%s): must be greater than zero", interval)
	}
	h.Spec.Every = interval
}

// SetSchedule calls the handler on a cron schedule.
func (h *Handler) SetSchedule(cron string) {
	parsed, err := schedule.Parse(cron)
	if err != nil {
		h.AddProblem("Schedule: %w", err)
	}
	h.Spec.Schedule = parsed
}

// RequireReason refuses an option of a handler that is not called for a reason.
func (h *Handler) RequireReason(option string, reason hook.Reason) { h.optionReasons[option] = reason }

// SetRetries limits the retries; 0 means none.
func (h *Handler) SetRetries(n int) {
	h.checkNotNegative("Retries", n < 0)
	if n == 0 {
		n = -1 // Zero is no limit in the program.
	}
	h.Spec.Retries = n
}

// SetBackoff sets the first and the longest delay before a retry.
func (h *Handler) SetBackoff(first, most time.Duration) {
	h.SetDuration("Backoff", &h.Spec.Backoff, first)
	h.SetDuration("Backoff", &h.Spec.MaxBackoff, most)
	if most < first {
		h.AddProblem("Backoff(%s, %s): the maximum is shorter than the initial delay", first, most)
	}
}

// SetStopTimeout limits how long a deletion waits for a daemon.
func (h *Handler) SetStopTimeout(d time.Duration) {
	if d <= 0 {
		h.AddProblem("StopTimeout(%s): must be greater than zero", d)
	}
	h.Spec.StopTimeout = d
}

// AddFormerName adds a name that the handler had.
func (h *Handler) AddFormerName(name string) {
	if err := validateName(name); err != nil {
		h.AddProblem("FormerName(%q): %w", name, err)
	}
	h.Spec.FormerNames = append(h.Spec.FormerNames, name)
}

// WatchFields limits the watched fields.
func (h *Handler) WatchFields(paths ...string) {
	for _, text := range paths {
		path, err := trigger.ParseField(text)
		if err != nil {
			h.AddProblem("Field: %w", err)
			continue
		}
		h.Spec.Fields = append(h.Spec.Fields, path)
	}
}

// SetDuration sets a field of the Spec to the value of an option.
func (h *Handler) SetDuration(option string, field *time.Duration, d time.Duration) {
	h.checkNotNegative(option, d < 0)
	*field = d
}

func (h *Handler) checkNotNegative(option string, negative bool) {
	if negative {
		h.AddProblem("%s: must not be negative", option)
	}
}

func (h *Handler) hasReason(reason hook.Reason) bool {
	if reason == hook.ReasonTimer {
		return h.Spec.Every > 0 || h.Spec.Schedule != nil
	}
	return slices.Contains(h.Spec.On, reason)
}

func (h *Handler) check(c *Controller) []error {
	p := problems(slices.Clone(h.problems))
	p.add(validateName(h.Name))
	for _, option := range slices.Sorted(maps.Keys(h.optionReasons)) {
		reason := h.optionReasons[option]
		p.when(!h.hasReason(reason), "%s: requires the reason %s", option, reason)
	}
	p.when(h.Spec.Every > 0 && h.Spec.Schedule != nil, "Every and Schedule: a handler has one timer: use another handler")
	p.when(h.Spec.FromFirstSeen && h.Spec.Every == 0, "InitialDelay: requires Every")
	p.when(h.hasReason(hook.ReasonDrift) && len(c.owns) == 0, "OnDrift: requires Owns")
	p.when(h.hasReason(hook.ReasonRelated) && len(c.related) == 0, "OnRelated: requires Watches")
	for _, one := range h.predicates {
		p.when(one.goType != c.goType, "the type of When is func(*%[1]s, *%[1]s) bool, and the handler has objects of %[2]s",
			one.goType, c.goType)
	}
	if h.Spec.KeepPreviousState {
		err := loop.ValidateKeepPreviousState(c.Kind.Group())
		p.when(err != nil, "KeepPreviousState: %w", err)
		for _, path := range h.comparedFields {
			p.when(!h.Spec.Watches(path),
				"KeepPreviousState requires that the handler watches the field %s of FieldChanged: add it to Field",
				strings.Join(path, "."))
		}
	}
	p.when(h.Daemon == nil && len(h.Spec.On) == 0 && !h.hasReason(hook.ReasonTimer),
		"has no reason to be called: add one, such as OnCreate or Every")
	p.when(h.Daemon == nil && h.Spec.StopTimeout != 0, "StopTimeout requires a daemon")
	return p
}

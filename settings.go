package setpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// settings are what options say of a handler.
type settings struct {
	name string
	// plan is the handler as the program will have it.
	plan react.Handler
	// filters must all hold, and so must whens, which are functions of the
	// handled type.
	filters []filter
	whens   []any
	// compared are the fields that filters look at before and now.
	compared [][]string
	// only says for which reason an option is.
	only     map[string]hook.Reason
	problems []error
}

// filter decides by the object before, which may be nil, and now.
type filter func(old, now *object.Object) bool

func newSettings() *settings { return &settings{only: map[string]hook.Reason{}} }

func (s *settings) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf(format, args...))
}

func (s *settings) notNegative(option string, negative bool) {
	if negative {
		s.problem("%s: must not be negative", option)
	}
}

func (s *settings) duration(option string, field *time.Duration, d time.Duration) {
	s.notNegative(option, d < 0)
	set(s, option, field, d)
}

// set refuses a second opinion.
func set[T comparable](s *settings, option string, field *T, value T) {
	var none T
	if *field != none && *field != value {
		s.problem("%s: %v at one registration and %v at another; a handler has one", option, *field, value)
		return
	}
	*field = value
}

// watch adds a field to those that the handler watches.
func (s *settings) watch(path []string) {
	if !slices.ContainsFunc(s.plan.Fields, func(one []string) bool { return slices.Equal(one, path) }) {
		s.plan.Fields = append(s.plan.Fields, path)
	}
}

// on adds a reason.
func (s *settings) on(reason hook.Reason) {
	if !slices.Contains(s.plan.On, reason) {
		s.plan.On = append(s.plan.On, reason)
	}
}

// told says whether the handler is called for a reason.
func (s *settings) told(reason hook.Reason) bool {
	if reason == hook.ReasonTimer {
		return s.plan.Every > 0 || s.plan.Schedule != nil
	}
	return slices.Contains(s.plan.On, reason)
}

// checkKept is what is wrong with a handler that knows what was, as far as it watches
// it, after a restart.
func (s *settings) checkKept(c *controller) []error {
	var problems []error
	if err := react.Keepable(c.kind.group()); err != nil {
		problems = append(problems, fmt.Errorf("KeepOld: %w", err))
	}
	for _, path := range s.compared {
		if !s.plan.Watches(path) {
			problems = append(problems, fmt.Errorf("KeepOld keeps the fields that are watched, and FieldChanged compares %s: give it to Field", strings.Join(path, ".")))
		}
	}
	return problems
}

// check is all that is wrong with a handler of a controller.
func (s *settings) check(c *controller) []error {
	problems := slices.Clone(s.problems)
	for _, option := range slices.Sorted(maps.Keys(s.only)) {
		if reason := s.only[option]; !s.told(reason) {
			problems = append(problems, fmt.Errorf("%s: is for a handler of reason %s", option, reason))
		}
	}
	if s.plan.Every > 0 && s.plan.Schedule != nil {
		problems = append(problems, errors.New("Every and Schedule: a handler has one timer; give the other one another setpoint.Name"))
	}
	if s.told(hook.ReasonDrift) && len(c.owns) == 0 {
		problems = append(problems, errors.New("OnDrift: say with Owns which kinds of object to watch for it"))
	}
	if s.plan.KeepOld {
		problems = append(problems, s.checkKept(c)...)
	}
	for i, err := range problems {
		problems[i] = fmt.Errorf("handler %q of %s: %w", s.name, c.name(), err)
	}
	return problems
}

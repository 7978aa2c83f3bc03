package setpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// handlerSettings are what options say of a handler.
type handlerSettings struct {
	name string
	// spec is the handler as the program will have it.
	spec handle.Handler
	// filters must all hold, and so must whens, which are functions of the
	// handled type.
	filters    []filter
	predicates []any
	// comparedFields are the fields that filters look at before and now.
	comparedFields [][]string
	// optionReasons says for which reason an option is.
	optionReasons map[string]hook.Reason
	problems      []error
}

// filter decides by the object before, which may be nil, and now.
type filter func(old, now *object.Object) bool

func newHandlerSettings(name string) *handlerSettings {
	return &handlerSettings{name: name, optionReasons: map[string]hook.Reason{}}
}

func (s *handlerSettings) addProblem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf(format, args...))
}

func (s *handlerSettings) checkNotNegative(option string, negative bool) {
	if negative {
		s.addProblem("%s: must not be negative", option)
	}
}

func (s *handlerSettings) setDuration(option string, field *time.Duration, d time.Duration) {
	s.checkNotNegative(option, d < 0)
	setOnce(s, option, field, d)
}

// setOnce refuses a second opinion.
func setOnce[T comparable](s *handlerSettings, option string, field *T, value T) {
	var none T
	if *field != none && *field != value {
		s.addProblem("%s: %v at one registration and %v at another; a handler has one", option, *field, value)
		return
	}
	*field = value
}

// watchField adds a field to those that the handler watches.
func (s *handlerSettings) watchField(path []string) {
	if !slices.ContainsFunc(s.spec.Fields, func(one []string) bool { return slices.Equal(one, path) }) {
		s.spec.Fields = append(s.spec.Fields, path)
	}
}

// addReason adds a reason.
func (s *handlerSettings) addReason(reason hook.Reason) {
	if !slices.Contains(s.spec.On, reason) {
		s.spec.On = append(s.spec.On, reason)
	}
}

// hasReason says whether the handler is called for a reason.
func (s *handlerSettings) hasReason(reason hook.Reason) bool {
	if reason == hook.ReasonTimer {
		return s.spec.Every > 0 || s.spec.Schedule != nil
	}
	return slices.Contains(s.spec.On, reason)
}

// checkPreviousState is what is wrong with a handler that knows what was, as far as it watches
// it, after a restart.
func (s *handlerSettings) checkPreviousState(c *controller) []error {
	var problems []error
	if err := handle.ValidateKeepPreviousState(c.kind.group()); err != nil {
		problems = append(problems, fmt.Errorf("KeepPreviousState: %w", err))
	}
	for _, path := range s.comparedFields {
		if !s.spec.Watches(path) {
			problems = append(problems, fmt.Errorf("KeepPreviousState requires that the handler watches the field %s of FieldChanged: add it to Field", strings.Join(path, ".")))
		}
	}
	return problems
}

// check is all that is wrong with a handler of a controller.
func (s *handlerSettings) check(c *controller) []error {
	problems := slices.Clone(s.problems)
	if err := validateName(s.name); err != nil {
		problems = append(problems, err)
	}
	for _, option := range slices.Sorted(maps.Keys(s.optionReasons)) {
		if reason := s.optionReasons[option]; !s.hasReason(reason) {
			problems = append(problems, fmt.Errorf("%s: requires the reason %s", option, reason))
		}
	}
	if s.spec.Every > 0 && s.spec.Schedule != nil {
		problems = append(problems, errors.New("Every and Schedule: a handler has one timer: use another handler"))
	}
	if s.hasReason(hook.ReasonDrift) && len(c.owns) == 0 {
		problems = append(problems, errors.New("OnDrift: say with Owns which kinds of object to watch for it"))
	}
	if s.spec.KeepPreviousState {
		problems = append(problems, s.checkPreviousState(c)...)
	}
	for i, err := range problems {
		problems[i] = fmt.Errorf("handler %q of %s: %w", s.name, c.name(), err)
	}
	return problems
}

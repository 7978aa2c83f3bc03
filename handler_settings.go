package setpoint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// handlerSettings are the options of a handler.
type handlerSettings struct {
	name string
	// spec is the handler as the program has it.
	spec loop.Handler
	// filters and predicates must all match. Predicates have the type of the handled
	// objects.
	filters    []filter
	predicates []any
	// comparedFields are the fields that filters compare with the old object.
	comparedFields [][]string
	// optionReasons are the reasons that options require.
	optionReasons map[string]hook.Reason
	problems      []error
}

// filter decides by the old object, which may be nil, and the current one.
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

// setOnce refuses two values of one option.
func setOnce[T comparable](s *handlerSettings, option string, field *T, value T) {
	var none T
	if *field != none && *field != value {
		s.addProblem("%s: registered with both %v and %v", option, *field, value)
		return
	}
	*field = value
}

func (s *handlerSettings) watchField(path []string) {
	if !slices.ContainsFunc(s.spec.Fields, func(one []string) bool { return slices.Equal(one, path) }) {
		s.spec.Fields = append(s.spec.Fields, path)
	}
}

func (s *handlerSettings) addReason(reason hook.Reason) {
	if !slices.Contains(s.spec.On, reason) {
		s.spec.On = append(s.spec.On, reason)
	}
}

func (s *handlerSettings) hasReason(reason hook.Reason) bool {
	if reason == hook.ReasonTimer {
		return s.spec.Every > 0 || s.spec.Schedule != nil
	}
	return slices.Contains(s.spec.On, reason)
}

// checkPreviousState checks the option KeepPreviousState.
func (s *handlerSettings) checkPreviousState(c *controller) []error {
	var problems []error
	if err := loop.ValidateKeepPreviousState(c.kind.group()); err != nil {
		problems = append(problems, fmt.Errorf("KeepPreviousState: %w", err))
	}
	for _, path := range s.comparedFields {
		if !s.spec.Watches(path) {
			problems = append(problems,
				fmt.Errorf("KeepPreviousState requires that the handler watches the field %s of FieldChanged: add it to Field",
					strings.Join(path, ".")))
		}
	}
	return problems
}

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
	if s.spec.FromFirstSeen && s.spec.Every == 0 {
		problems = append(problems, errors.New("InitialDelay: requires Every"))
	}
	if s.hasReason(hook.ReasonDrift) && len(c.owns) == 0 {
		problems = append(problems, errors.New("OnDrift: requires Owns"))
	}
	if s.hasReason(hook.ReasonRelated) && len(c.related) == 0 {
		problems = append(problems, errors.New("OnRelated: requires Watches"))
	}
	if s.spec.KeepPreviousState {
		problems = append(problems, s.checkPreviousState(c)...)
	}
	for i, err := range problems {
		problems[i] = fmt.Errorf("handler %q of %s: %w", s.name, c.name(), err)
	}
	return problems
}

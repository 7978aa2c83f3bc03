package explore

import (
	"fmt"
	"slices"
	"strings"
)

// fieldsOfSteps are the fields that a step of each kind needs, in the order of their names in errors.
var fieldsOfSteps = []struct {
	kind                            actionKind
	controller, key, object, naming bool
}{
	{kind: deliver, object: true},
	{kind: reconcile, controller: true, key: true},
	{kind: send, controller: true, key: true},
	{kind: reject, controller: true, key: true, naming: true},
	{kind: restart, naming: true},
	{kind: edit, object: true, naming: true},
	{kind: interfere, object: true, naming: true},
	{kind: proceed, object: true, naming: true},
	{kind: collect, object: true, naming: true},
}

// CheckSteps reports the first step that no exploration makes, by the path of its field.
func (s *Story) CheckSteps() error {
	for _, way := range []struct {
		name  string
		steps []StoryStep
	}{{"steps", s.Steps}, {"other", s.Other}} {
		for i := range way.steps {
			if err := s.checkStep(&way.steps[i].Action); err != nil {
				return fmt.Errorf("%s[%d].%w", way.name, i, err)
			}
		}
	}
	return nil
}

func (s *Story) checkStep(a *Action) error {
	at := 0
	for at < len(fieldsOfSteps) && fieldsOfSteps[at].kind != a.Step {
		at++
	}
	if at == len(fieldsOfSteps) {
		return fmt.Errorf("step: %q is no step; there are %s", a.Step, stepNames())
	}
	needs := fieldsOfSteps[at]
	for _, field := range []struct {
		name         string
		needed, gone bool
	}{
		{"controller", needs.controller, a.Controller == ""}, {"key", needs.key, a.Key == ""},
		{"object", needs.object, a.Object == nil}, {"name", needs.naming, a.Name == ""},
	} {
		if field.needed && field.gone {
			return fmt.Errorf("%s: is required for the step %s", field.name, a.Step)
		}
	}
	if a.Step == edit && !slices.ContainsFunc(s.Edits, func(e Edit) bool {
		return e.Name == a.Name &&
			e.Object.Identity() == a.Object.Identity()
	}) {
		return fmt.Errorf("name: %q is not among the edits of %s in the story", a.Name, a.Object)
	}
	return nil
}

func stepNames() string {
	names := make([]string, len(fieldsOfSteps))
	for i := range fieldsOfSteps {
		names[i] = string(fieldsOfSteps[i].kind)
	}
	return strings.Join(names, ", ")
}

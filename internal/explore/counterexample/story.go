// Package counterexample has stories: the steps that lead to a violation of a property, as files and in words.
package counterexample

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
)

// The type of stories in files.
const (
	APIVersion = "test.setpoint.dev/v1alpha1"
	Kind       = "Story"
)

// Story is a violation with the steps that lead to it, from the beginning. It replays deterministically.
type Story struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	// Setpoint is the version that wrote the story, Files are the digests of the files that it is about.
	Setpoint string            `json:"setpoint,omitempty"`
	Files    map[string]string `json:"files,omitempty"`
	// Controllers are KIND/NAME of those that were explored.
	Controllers []string `json:"controllers,omitempty"`
	// Property is what is violated, Violation how.
	Property   property.Property    `json:"property"`
	Violation  string               `json:"violation"`
	Objects    []json.RawMessage    `json:"objects"`
	Edits      []world.Edit         `json:"edits,omitempty"`
	Invariants []property.Invariant `json:"invariants,omitempty"`
	Steps      []StoryStep          `json:"steps"`
	// Repeats is how many of the last steps go on for ever.
	Repeats int `json:"repeats,omitempty"`
	// Other are steps that lead to the other end that the violation speaks of.
	Other []StoryStep `json:"other,omitempty"`
}

// Metadata names a story.
type Metadata struct {
	Name string `json:"name"`
}

// StoryStep is a step, and what happens in words.
type StoryStep struct {
	world.Action `json:",inline"`

	Text string `json:"text"`
}

// Write writes a story for a person.
func (s *Story) Write(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s\n", s.Property, s.Violation)
	for i, step := range s.Steps {
		if s.Repeats > 0 && i == len(s.Steps)-s.Repeats {
			b.WriteString("  These steps repeat for ever:\n")
		}
		fmt.Fprintf(b, "%4d. %s\n", i+1, step.Text)
	}
	if len(s.Other) > 0 {
		b.WriteString("  The other end:\n")
	}
	for i, step := range s.Other {
		fmt.Fprintf(b, "%4d. %s\n", i+1, step.Text)
	}
}

// Save writes a file for each violation that has steps, and returns the files. A prefix comes before the names.
func Save(folder, prefix string, violations []Story) ([]string, error) {
	var saved []string
	for i := range violations {
		story := violations[i]
		if len(story.Steps) == 0 {
			continue // A call is enough to see it.
		}
		story.Metadata.Name = prefix + story.Metadata.Name
		text, err := yaml.Marshal(story)
		if err != nil {
			return saved, err
		}
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return saved, err
		}
		file := filepath.Join(folder, FileName(story.Metadata.Name)+".yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return saved, err
		}
		saved = append(saved, file)
	}
	return saved, nil
}

// FileName returns a name without what file systems or shells take for something else.
func FileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|'$&;()[]{}`+"`!# \t\n", r) {
			return '-'
		}
		return r
	}, name)
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

func (s *Story) checkStep(a *world.Action) error {
	if err := a.Check(); err != nil {
		return err
	}
	if a.Step == world.MakeEdit && !slices.ContainsFunc(s.Edits, func(e world.Edit) bool {
		return e.Name == a.Name && e.Object.Identity() == a.Object.Identity()
	}) {
		return fmt.Errorf("name: %q is not among the edits of %s in the story", a.Name, a.Object)
	}
	return nil
}

// WithFunctions returns the invariants of the story. A function is not in a file: it is that of today.
func (s *Story) WithFunctions(today []property.Invariant) []property.Invariant {
	all := slices.Clone(s.Invariants)
	for i := range all {
		at := slices.IndexFunc(today, func(now property.Invariant) bool { return now.Name == all[i].Name && now.Func != nil })
		if at >= 0 {
			all[i] = today[at]
		}
	}
	return all
}

// Check reports fields that make no sense.
func (s *Story) Check() error {
	known := slices.Contains(property.Properties, s.Property) || slices.ContainsFunc(s.Invariants,
		func(i property.Invariant) bool { return property.Property(i.Name) == s.Property })
	switch {
	case s.Kind != Kind:
		return fmt.Errorf("kind: is %q, must be %s", s.Kind, Kind)
	case s.APIVersion != APIVersion:
		return fmt.Errorf("apiVersion: is %q; this version of Setpoint reads %s", s.APIVersion, APIVersion)
	case !known:
		return fmt.Errorf("property: %q is neither a property nor an invariant of the story", s.Property)
	case s.Property == property.Deterministic:
		return errors.New("property: a hook that responds in two ways has no steps; explore again")
	case len(s.Steps) == 0 && len(s.Invariants) == 0:
		return errors.New("steps: is empty")
	}
	return s.CheckSteps()
}

// Outdated says what has changed since a story was written.
func (s *Story) Outdated(version string, files map[string]string) []string {
	var notes []string
	if s.Setpoint != "" && version != "" && s.Setpoint != version {
		notes = append(notes, fmt.Sprintf("The story is from Setpoint %s; this is %s.", s.Setpoint, version))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		switch now, exists := files[name]; {
		case !exists:
			notes = append(notes, fmt.Sprintf("The story is about %s, which is not among the files.", name))
		case now != s.Files[name]:
			notes = append(notes, name+" has changed since the story was written.")
		}
	}
	return notes
}

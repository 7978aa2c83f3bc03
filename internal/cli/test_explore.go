package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// explorationResult is the result of an exploration.
type explorationResult struct {
	Name string `json:"name"`
	// File and Line are where the Exploration is; empty if it was made from samples.
	File   string          `json:"file,omitempty"`
	Line   int             `json:"line,omitempty"`
	Passed bool            `json:"passed"`
	Report *explore.Report `json:"report,omitempty"`
	// Saved are the files with the stories of violations.
	Saved []string `json:"saved,omitempty"`
	Error string   `json:"error,omitempty"`
}

// storyResult is the result of a replay.
type storyResult struct {
	Name    string  `json:"name"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Passed  bool    `json:"passed"`
	Seconds float64 `json:"seconds"`
	// Violation says how the property is still violated, Stopped why the steps are not possible any more.
	Violation string   `json:"violation,omitempty"`
	Stopped   string   `json:"stopped,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// story is a story in a file.
type story struct {
	explore.Story

	document manifest.Document
}

// readStories returns the stories in the files. It returns all errors.
func readStories(w *workspace.Workspace) ([]*story, error) {
	var all []*story
	var problems []error
	for _, d := range w.Tests {
		if d.Object.GetKind() == workspace.StoryKind {
			s := &story{document: d}
			problems = append(problems, d.Decode(&s.Story))
			all = append(all, s)
		}
	}
	return all, errors.Join(problems...)
}

// saveStories writes a file for each violation.
func saveStories(folder, name string, violations []explore.Story) ([]string, error) {
	if len(violations) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, fmt.Errorf("--stories: %w", err)
	}
	var saved []string
	for i := range violations {
		story := violations[i]
		if len(story.Steps) == 0 {
			continue // A call is enough to see it.
		}
		story.Metadata.Name = name + "-" + story.Metadata.Name
		text, err := yaml.Marshal(story)
		if err != nil {
			return saved, err
		}
		file := filepath.Join(folder, story.Metadata.Name+".yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return saved, fmt.Errorf("--stories: %w", err)
		}
		saved = append(saved, file)
	}
	return saved, nil
}

func (s testStyle) writeExploration(b *strings.Builder, e *explorationResult) {
	s.writeName(b, e.Passed, e.Name, e.File, e.Line)
	if e.Error != "" {
		b.WriteString(indentLines(diff.EscapeInvisible(e.Error)))
	}
	if e.Report != nil {
		b.WriteString(indentLines(diff.EscapeInvisible(e.Report.Text())))
	}
	for _, file := range e.Saved {
		fmt.Fprintf(b, "      saved as %s\n", file)
	}
}

func (s testStyle) writeStory(b *strings.Builder, r *storyResult) {
	s.writeName(b, r.Passed, r.Name, r.File, r.Line)
	for _, text := range append([]string{r.Error, r.Violation, r.Stopped}, r.Notes...) {
		if text != "" {
			b.WriteString(indentLines(diff.EscapeInvisible(text)))
		}
	}
}

// writeName writes the line of a test.
func (s testStyle) writeName(b *strings.Builder, passed bool, name, file string, line int) {
	if passed {
		fmt.Fprintf(b, "%s  %s\n", s.paint(green, "ok  "), name)
		return
	}
	if file != "" {
		name += fmt.Sprintf(" (%s:%d)", file, line)
	}
	fmt.Fprintf(b, "%s  %s\n", s.paint(red, "FAIL"), name)
}

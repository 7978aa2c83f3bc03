package test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// explorationResult is the result of an exploration.
type explorationResult struct {
	Name string `json:"name"`
	// File and Line are where the Exploration is; empty if it was made from samples.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Passed bool   `json:"passed"`
	// Interrupted is set if Ctrl-C has ended it before anything was violated.
	Interrupted bool            `json:"interrupted,omitempty"`
	Report      *explore.Report `json:"report,omitempty"`
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
	Violation string `json:"violation,omitempty"`
	Stopped   string `json:"stopped,omitempty"`
	// OnCluster says whether a real API server did the same.
	OnCluster string   `json:"onCluster,omitempty"`
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
			problems = append(problems, s.read())
			all = append(all, s)
		}
	}
	return all, errors.Join(problems...)
}

// read reads the story from its document.
func (s *story) read() error {
	if err := s.document.Decode(&s.Story); err != nil {
		return err
	}
	if err := s.CheckSteps(); err != nil {
		return fmt.Errorf("%s: %s: %w", s.document.Locate(err), s.Metadata.Name, err)
	}
	return nil
}

func (s testStyle) writeExploration(b *strings.Builder, e *explorationResult) {
	if e.Interrupted {
		fmt.Fprintf(b, "%s  %s\n", s.paint(output.Yellow, "ended"), output.Clean(e.Name))
	} else {
		s.writeName(b, e.Passed, e.Name, e.File, e.Line)
	}
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
	for _, text := range append([]string{r.Error, r.Violation, r.Stopped, r.OnCluster}, r.Notes...) {
		if text != "" {
			b.WriteString(indentLines(diff.EscapeInvisible(text)))
		}
	}
}

package dev

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// controllerGroups are the API groups of controllers.
var controllerGroups = []string{"setpoint.dev", "metacontroller.k8s.io"}

// printSummary prints what is running and what to try.
func (s *session) printSummary() {
	var b strings.Builder
	b.WriteString(s.readiness(progress.FormatDuration(time.Since(s.began))))
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	if s.dashboardURL != "" {
		row("dashboard", "%s", s.dashboardURL)
	}
	row("API server", "%s", s.cluster.Address())
	row("kubeconfig", "%s", s.cluster.Kubeconfig())
	s.describeRunning(row)
	b.WriteString("\nTry, in another terminal:\n")
	for _, idea := range s.suggestions() {
		fmt.Fprintf(&b, "  %s\n", idea)
	}
	if s.Target == nil {
		b.WriteString("\nCtrl-C stops everything.\n")
	} else {
		b.WriteString("\nCtrl-C stops what runs here; objects stay in the cluster.\n")
	}
	s.Reporter.Line("%s", b.String())
}

// readiness returns the line that everything is ready, or what is not.
func (s *session) readiness(took string) string {
	var problems []string
	for _, l := range s.locals {
		if ready, failed := l.process.State(); failed != nil {
			problems = append(problems, l.failure(failed).Error())
		} else if !ready {
			problems = append(problems, l.failure(fmt.Errorf("nothing listens on port %d yet", l.port)).Error())
		}
	}
	for _, dir := range s.unapplied {
		problems = append(problems, "the manifests of "+dir+" are not all applied")
	}
	if len(problems) == 0 {
		return fmt.Sprintf("\nReady after %s.\n\n", took)
	}
	return fmt.Sprintf("\nStarted after %s, not everything is ready:\n  %s\n\n", took, strings.Join(problems, "\n  "))
}

// printAddresses prints where to look while a command runs.
func (s *session) printAddresses() {
	if s.dashboardURL != "" {
		s.Reporter.Line("dashboard: %s", s.dashboardURL)
	}
	if len(s.logs) > 0 {
		s.Reporter.Line("process logs: %s", s.ProcessLogs)
	}
}

func (s *session) describeRunning(row func(name, format string, args ...any)) {
	components := s.cluster.Components()
	names := make([]string, len(components))
	for i, c := range components {
		names[i] = c.Name
	}
	if len(components) > 0 {
		row("components", "%s", strings.Join(names, ", "))
		row("logs", "%s", filepath.Dir(components[0].Log))
	}
	for _, l := range s.locals {
		row("process", "%s: %s%s", l.Name, strings.Join(l.Written, " "), l.describeService())
	}
	for _, key := range s.controllers() {
		row("controller", "%s", key)
	}
}

// describeService returns the Service that a process replaces.
func (l *localProcess) describeService() string {
	if l.Service == nil {
		return ""
	}
	return fmt.Sprintf(" (port %d, service %s)", l.port, l.Service)
}

// controllers returns the applied controller objects.
func (s *session) controllers() []object.Ref {
	var keys []object.Ref
	for _, w := range s.projects {
		for _, key := range w.applied {
			if slices.Contains(controllerGroups, key.Group) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// suggestions returns commands to try.
func (s *session) suggestions() []string {
	ideas := []string{"export KUBECONFIG=" + s.cluster.Kubeconfig()}
	ideas = append(ideas, s.Program+" kubectl get pods --all-namespaces")
	kinds := lists.Map(s.controllers(), func(key object.Ref) string { return strings.ToLower(key.Kind.Kind) + "s." + key.Group })
	if controllers := s.controllers(); len(controllers) > 0 {
		kind := controllers[0].Kind
		ideas = append(ideas, fmt.Sprintf("%s plan %s.%s/%s -A", s.Program, strings.ToLower(kind.Kind), kind.Group, controllers[0].Name))
	}
	slices.Sort(kinds)
	if kinds = slices.Compact(kinds); len(kinds) > 0 {
		ideas = append(ideas, s.Program+" kubectl get "+strings.Join(kinds, ","))
	}
	return append(ideas, s.editSuggestion()...)
}

// editSuggestion returns the suggestion to edit a file.
func (s *session) editSuggestion() []string {
	switch len(s.projects) {
	case 0:
		return nil
	case 1:
		if !s.projects[0].HasFile() {
			return []string{"edit " + s.projects[0].File + " and save it"}
		}
		return []string{"edit a file in " + s.projects[0].Name() + " and save it"}
	}
	return []string{fmt.Sprintf("edit a file of one of the %d projects and save it", len(s.projects))}
}

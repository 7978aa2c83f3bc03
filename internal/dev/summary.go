package dev

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// printSummary prints what is running and what to try.
func (s *session) printSummary() {
	var b strings.Builder
	b.WriteString(s.locals.readiness(s.unapplied, progress.FormatDuration(time.Since(s.began))))
	row := func(name, text string) { fmt.Fprintf(&b, "  %-12s %s\n", name, text) }
	if s.dashboardURL != "" {
		row("dashboard", s.dashboardURL)
	}
	row("API server", s.cluster.Address())
	row("kubeconfig", s.cluster.Kubeconfig())
	if components := s.cluster.Components(); len(components) > 0 {
		row("components", strings.Join(lists.Map(components, func(c Component) string { return c.Name }), ", "))
		row("logs", filepath.Dir(components[0].Log))
	}
	for _, l := range s.locals {
		text := l.Name + ": " + strings.Join(l.Written, " ")
		if l.Service != nil {
			text += fmt.Sprintf(" (port %d, service %s)", l.Port, l.Service)
		}
		row("process", text)
	}
	var controllers []object.Ref
	for _, w := range s.projects {
		ours := func(ref object.Ref) bool { return slices.Contains(manifest.ControllerGroups, ref.Group) }
		controllers = append(controllers, lists.Filter(w.applied, ours)...)
	}
	for _, ref := range controllers {
		row("controller", ref.String())
	}
	b.WriteString("\nTry, in another terminal in this folder:\n")
	for _, idea := range s.suggestions(controllers) {
		fmt.Fprintf(&b, "  %s\n", idea)
	}
	if s.Target == nil {
		b.WriteString("\nCtrl-C stops everything.\n")
	} else {
		b.WriteString("\nCtrl-C stops what runs here; objects stay in the cluster.\n")
	}
	if s.keyboard != nil {
		fmt.Fprintf(&b, "\n%s\n", keysLine())
	}
	s.Reporter.Line("%s", b.String())
}

// suggestions returns commands to try.
func (s *session) suggestions(controllers []object.Ref) []string {
	ideas := []string{s.Program + " kubectl get pods --all-namespaces"}
	if len(controllers) > 0 {
		kind := strings.ToLower(controllers[0].Kind.Kind)
		ideas = append(ideas, fmt.Sprintf("%s plan %s.%s/%s -A", s.Program, kind, controllers[0].Group, controllers[0].Name),
			fmt.Sprintf("%s kubectl get %ss.%s", s.Program, kind, controllers[0].Group))
	}
	if len(s.projects) > 0 {
		name := s.projects[0].Name()
		if s.projects[0].HasFile() {
			name = "a file in " + name
		}
		ideas = append(ideas, "edit "+name+" and save it")
	}
	return append(ideas, "export KUBECONFIG="+s.cluster.Kubeconfig()+"   # for other folders and programs")
}

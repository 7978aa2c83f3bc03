package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// action is something that can be done with an object, or could be with more rights.
type action struct {
	Label, URL, Icon string
	// Post actions are sent as a form; the others are links.
	Post bool
	// Fields are what the form says.
	Fields map[string]string
	// Lacking names the right that the visitor has not got; "" for none.
	Lacking string
	// Target is where the answer goes without leaving the page, "#" and an ID; "" for
	// nowhere.
	Target string
	Danger bool
}

// actions are what can be done with an object in the care of somebody.
func (v *visit) actions(s *subject, cares []inspect.Care) []action {
	if s.Gone {
		return nil
	}
	var all []action
	if len(cares) > 0 {
		all = append(all, v.asks(s)...)
		for _, care := range cares {
			all = append(all, planAction(s, care, len(cares) > 1))
		}
	}
	edit := action{Label: "Edit", Icon: "edit", URL: s.URL("edit"), Lacking: v.lacking("patch", s)}
	remove := action{Label: "Delete", Icon: "trash", URL: s.URL("delete"), Danger: true, Lacking: v.lacking("delete", s)}
	return append(all, edit, remove)
}

// asks are what is asked of controllers by annotations.
func (v *visit) asks(s *subject) []action {
	lacking := v.lacking("patch", s)
	toggle := action{Label: "Pause", Icon: "pause", Fields: map[string]string{"do": "pause"}}
	if s.Paused() {
		toggle = action{Label: "Resume", Icon: "play", Fields: map[string]string{"do": "resume"}}
	}
	now := action{Label: "Reconcile now", Icon: "again", Fields: map[string]string{"do": "reconcile"}}
	all := []action{now, toggle}
	for i := range all {
		all[i].Post, all[i].URL, all[i].Lacking = true, s.URL("ask"), lacking
	}
	return all
}

func planAction(s *subject, care inspect.Care, several bool) action {
	label := "Plan"
	if several {
		label += " of " + shortController(care.Controller)
	}
	return action{
		Label: label, Icon: "wait", URL: s.URL("plan"), Post: true, Target: "#plan",
		Fields: map[string]string{"process": care.Process, "controller": care.Controller},
	}
}

// lacking names the right that the visitor would need.
func (v *visit) lacking(verb string, s *subject) string {
	if v.may(verb, s.Kind, s.Namespace, s.Name) {
		return ""
	}
	text := "You may not: that takes the right to " + verb + " " + s.Resource()
	if s.Namespace != "" {
		text += " in the namespace " + s.Namespace
	}
	return text + "."
}

// Lacking are the rights that keep the visitor from what is offered.
func (p objectPage) Lacking() []string {
	var all []string
	for _, a := range p.Actions {
		if a.Lacking != "" && !slices.Contains(all, a.Label+": "+a.Lacking) {
			all = append(all, a.Label+": "+a.Lacking)
		}
	}
	return all
}

// Paused says that a user wants the object left alone.
func (s *subject) Paused() bool { return s.Meta.Annotations[v1alpha1.AnnotationPaused] == "true" }

// askController tells controllers of an object what a user wants, by an annotation.
func askController(v *visit) error {
	s, err := v.subject()
	if err != nil {
		return err
	}
	if s.Gone {
		return missing("%s %s is gone: there is nothing to be asked for.", s.Kind.Kind, s.Name)
	}
	mark, said := wish(v.field("do"), v.now())
	if mark == nil {
		return invalid("There is nothing called %q to ask for.", v.field("do"))
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID, "annotations": mark}})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	if _, err := v.api.Patch(v.context(), s.Ref, types.MergePatchType, patch); err != nil {
		return err
	}
	v.flash(said)
	return v.redirect(s.URL())
}

// wish is the annotation for what is asked for, and what is said about it.
func wish(do string, now time.Time) (mark map[string]any, said string) {
	switch do {
	case "reconcile":
		return map[string]any{v1alpha1.AnnotationReconcileAt: now.UTC().Format(time.RFC3339Nano)}, "Asked for a run now. It appears in the timeline."
	case "pause":
		return map[string]any{v1alpha1.AnnotationPaused: "true"}, "Paused: it and what was made of it are left alone until somebody resumes it."
	case "resume":
		return map[string]any{v1alpha1.AnnotationPaused: nil}, "Resumed."
	}
	return nil, ""
}

// planPage is what would be done about an object now.
type planPage struct {
	*subject
	Tab        string
	Controller string
	Lines      []planLine
	Report     string
	// Fault is why there is no plan.
	Fault *fault
	// Lacking names a right without which a plan is not shown.
	Lacking string
	At      time.Time
}

// planLine is a line of a plan, and what it is: "add", "del", "change", "bad", "note",
// "head" or nothing.
type planLine struct{ Text, Class string }

// maxPlan is how much of a plan is shown.
const maxPlan = 256 << 10

func showPlan(v *visit) error {
	s, err := v.subject()
	if err != nil {
		return err
	}
	source, err := v.source(v.field("process"))
	if err != nil {
		return err
	}
	p := planPage{subject: s, Tab: "timeline", Controller: v.field("controller"), At: v.now()}
	if err := v.plan(&p, source); err != nil {
		return err
	}
	if v.inside() {
		return v.fragment("object_plan", "plan", p)
	}
	return v.render(page{Name: "object_plan", Title: "Plan for " + s.Kind.Kind + " " + s.Name, Section: "resources", Still: true, Data: p})
}

// plan asks for it, if the visitor may read all that it may be about, and shows it if
// they may read all that it is about: of a controller that does not run, nobody knows
// that before.
func (v *visit) plan(p *planPage, source inspect.Source) error {
	controllers, err := v.controllersOf(source)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		if c.Name != p.Controller || !v.maySee(&c) {
			continue
		}
		if p.Lacking = v.unreadable(c.Children, p.Namespace); p.Lacking != "" {
			return nil
		}
		return v.makePlan(p, source)
	}
	if err := v.doubt.reason(); err != nil {
		return err
	}
	return missing("There is no controller %s in %s.", p.Controller, source.Name())
}

// show takes a plan over, if all that it is about may be read. Who is the process itself
// may read all.
func (p *planPage) show(plan *inspect.Plan, own bool, reads func(inspect.Kind, string) bool) {
	if !own {
		p.Lacking = unreadOf(plan.Refs, p.Ref, reads)
	}
	if p.Lacking != "" {
		return
	}
	p.Lines = planLines(plan.Text)
	p.Report, _ = diff.Pretty(plan.Report, maxPlan)
}

// unreadOf names the right that is missing to read what a plan is about. The object
// itself was read before.
func unreadOf(refs []inspect.Ref, itself inspect.Ref, reads func(inspect.Kind, string) bool) string {
	if len(refs) == 0 {
		return "This process, of another version, does not say what its plan is about: it is not shown to who may not read everything."
	}
	for _, ref := range refs {
		same := sameKind(ref.Kind, itself.Kind) && ref.Namespace == itself.Namespace && ref.Name == itself.Name
		if !same && !reads(ref.Kind, ref.Namespace) {
			return "This plan is about objects that you may not read: that takes the right to " + right("get", ref.Kind, ref.Namespace) + "."
		}
	}
	return ""
}

// unreadable names the first kind that the visitor may not read everywhere where an
// object may have children.
func (v *visit) unreadable(kinds []inspect.Kind, namespace string) string {
	for _, kind := range kinds {
		in := namespace
		if !kind.Namespaced {
			in = ""
		}
		if !v.reads(kind, in) {
			return "A plan shows what would become of " + kind.Resource() + ", which you may not read: that takes the right to get them."
		}
	}
	return ""
}

func planLines(text string) []planLine {
	if len(text) > maxPlan {
		text = text[:maxPlan] + "\n… and more"
	}
	var lines []planLine
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		lines = append(lines, planLine{diff.Visible(line), planClass(strings.TrimLeft(line, " "))})
	}
	for len(lines) > 0 && lines[len(lines)-1].Text == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func planClass(line string) string {
	for _, known := range []struct{ prefix, class string }{
		{"-/+ ", "change"}, {"+ ", "add"}, {"- ", "del"}, {"~ ", "change"}, {"error: ", "bad"}, {"hint: ", "bad"}, {"note: ", "note"},
	} {
		if strings.HasPrefix(line, known.prefix) {
			return known.class
		}
	}
	return ""
}

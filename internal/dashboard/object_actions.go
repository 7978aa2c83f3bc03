package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// action is something that the user can do with an object, or could do with more permissions.
type action struct {
	Label, URL, Icon string
	// Post actions are forms; others are links.
	Post bool
	// Fields are the hidden fields of the form.
	Fields map[string]string
	// MissingPermission is what the user needs; "" for nothing.
	MissingPermission string
	// Target is the element that shows the response; "" to load another page.
	Target string
	Danger bool
}

// actions returns the actions for an object.
func (req *request) actions(s *pageObject, states []model.ObjectState) []action {
	if s.Deleted {
		return nil
	}
	var all []action
	if len(states) > 0 {
		all = append(all, req.annotationActions(s)...)
		for _, state := range states {
			all = append(all, planAction(s, state, len(states) > 1))
		}
	}
	edit := action{Label: "Edit", Icon: "edit", URL: s.URL("edit"), MissingPermission: req.missingPermission("patch", s)}
	remove := action{Label: "Delete", Icon: "trash", URL: s.URL("delete"), Danger: true, MissingPermission: req.missingPermission("delete", s)}
	return append(all, edit, remove)
}

// annotationActions returns the actions that set an annotation.
func (req *request) annotationActions(s *pageObject) []action {
	missing := req.missingPermission("patch", s)
	toggle := action{Label: "Pause", Icon: "pause", Fields: map[string]string{"do": "pause"}}
	if s.Paused() {
		toggle = action{Label: "Resume", Icon: "play", Fields: map[string]string{"do": "resume"}}
	}
	now := action{Label: "Reconcile now", Icon: "again", Fields: map[string]string{"do": "reconcile"}}
	all := []action{now, toggle}
	for i := range all {
		all[i].Post, all[i].URL, all[i].MissingPermission = true, s.URL("annotate"), missing
	}
	return all
}

func planAction(s *pageObject, state model.ObjectState, several bool) action {
	label := "Plan"
	if several {
		label += " of " + shortName(state.Controller)
	}
	return action{
		Label: label, Icon: "wait", URL: s.URL("plan"), Post: true, Target: "#plan",
		Fields: map[string]string{"process": state.Process, "controller": state.Controller},
	}
}

// missingPermission returns a message if the user may not do something.
func (req *request) missingPermission(verb string, s *pageObject) string {
	if req.can(verb, s.Kind, s.Namespace, s.Name) {
		return ""
	}
	return "You do not have permission to " + describePermission(verb, s.Kind, s.Namespace) + "."
}

// MissingPermissions returns the distinct messages of all actions.
func (p objectPage) MissingPermissions() []string {
	var all []string
	for _, a := range p.Actions {
		if a.MissingPermission != "" && !slices.Contains(all, a.Label+": "+a.MissingPermission) {
			all = append(all, a.Label+": "+a.MissingPermission)
		}
	}
	return all
}

// Paused reports whether the object has the paused annotation.
func (s *pageObject) Paused() bool { return s.Meta.Annotations[v1alpha1.AnnotationPaused] == "true" }

// annotateObject sets an annotation that tells the controllers of an object what to do.
func annotateObject(req *request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	if s.Deleted {
		return notFound("%s %s deleted.", s.Kind.Kind, s.Name)
	}
	mark, message := annotationFor(req.field("do"), req.now())
	if mark == nil {
		return badRequest("Unknown action %q.", req.field("do"))
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID, "annotations": mark}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if _, err := req.api.Patch(req.context(), s.Ref, types.MergePatchType, patch); err != nil {
		return err
	}
	req.flash(message)
	return req.redirect(s.URL())
}

// annotationFor returns the annotation for an action, and the message that confirms it.
func annotationFor(do string, now time.Time) (mark map[string]any, message string) {
	switch do {
	case "reconcile":
		return map[string]any{v1alpha1.AnnotationReconcileAt: now.UTC().Format(time.RFC3339Nano)}, "Reconcile requested. The run appears in the timeline."
	case "pause":
		return map[string]any{v1alpha1.AnnotationPaused: "true"}, "Paused. The controller writes nothing until the object is resumed."
	case "resume":
		return map[string]any{v1alpha1.AnnotationPaused: nil}, "Resumed."
	}
	return nil, ""
}

// planPage is the data of a dry run.
type planPage struct {
	*pageObject
	Tab        string
	Controller string
	Lines      []planLine
	Report     string
	// Fault is why the plan failed.
	Fault *fault
	// MissingPermission is what the user needs to see the plan.
	MissingPermission string
	CreatedAt         time.Time
}

// planLine is a line of a plan. Class is "add", "del", "change", "bad", "note" or "".
type planLine struct{ Text, Class string }

// maxPlanBytes is how much of a plan is shown.
const maxPlanBytes = 256 << 10

func showPlan(req *request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	source, err := req.source(req.field("process"))
	if err != nil {
		return err
	}
	p := planPage{pageObject: s, Tab: "timeline", Controller: req.field("controller"), CreatedAt: req.now()}
	if err := req.loadPlan(&p, source); err != nil {
		return err
	}
	if req.isFragment() {
		return req.renderFragment("object_plan", "plan", p)
	}
	return req.render(page{Name: "object_plan", Title: "Plan for " + s.Kind.Kind + " " + s.Name, Section: "resources", Static: true, Data: p})
}

// loadPlan makes a plan if the user may read the child kinds of the controller. The plan is
// shown if the user may read all objects in it, which are known only afterwards.
func (req *request) loadPlan(p *planPage, source model.Source) error {
	controllers, err := req.controllersOf(source)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		if c.Name != p.Controller || !req.canSee(&c) {
			continue
		}
		if p.MissingPermission = req.forbiddenKind(c.Children, p.Namespace); p.MissingPermission != "" {
			return nil
		}
		return req.makePlan(p, source)
	}
	if err := req.accessErrors.first(); err != nil {
		return err
	}
	return notFound("There is no controller %s in process %s.", p.Controller, source.Name())
}

// setPlan sets the plan if the user may read all objects in it.
func (p *planPage) setPlan(plan *model.Plan, own bool, reads func(object.Kind, string) bool) {
	if !own {
		p.MissingPermission = forbiddenRef(plan.Refs, p.Ref, reads)
	}
	if p.MissingPermission != "" {
		return
	}
	p.Lines = planLines(plan.Text)
	p.Report, _ = diff.Pretty(plan.Report, maxPlanBytes)
}

// forbiddenRef returns a message if the user may not read an object of the plan.
func forbiddenRef(refs []object.Ref, itself object.Ref, reads func(object.Kind, string) bool) string {
	if len(refs) == 0 {
		return "This process runs a version that does not list the objects of a plan, so only users who can read everything can see it."
	}
	for _, ref := range refs {
		same := sameKind(ref.Kind, itself.Kind) && ref.Namespace == itself.Namespace && ref.Name == itself.Name
		if !same && !reads(ref.Kind, ref.Namespace) {
			return "The plan includes objects that you may not read. Missing permission: " + describePermission("get", ref.Kind, ref.Namespace) + "."
		}
	}
	return ""
}

// forbiddenKind returns a message if the user may not read a child kind.
func (req *request) forbiddenKind(kinds []object.Kind, namespace string) string {
	for _, kind := range kinds {
		in := namespace
		if !kind.Namespaced {
			in = ""
		}
		if !req.canRead(kind, in) {
			return "The plan includes " + kind.Resource() + ", which you may not read. Missing permission: get "
		}
	}
	return ""
}

func planLines(text string) []planLine {
	if len(text) > maxPlanBytes {
		text = text[:maxPlanBytes] + "\n… and more"
	}
	var lines []planLine
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		lines = append(lines, planLine{diff.EscapeInvisible(line), planClass(strings.TrimLeft(line, " "))})
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

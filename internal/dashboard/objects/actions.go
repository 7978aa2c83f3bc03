package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func (req *Request) objectActions(s *Object, states []inspect.ObjectState) []web.Action {
	if s.Deleted {
		return nil
	}
	missing := req.Refusal("patch", s.Ref)
	var all []web.Action
	if len(states) > 0 {
		all = append(all, annotateAction(s, "reconcile", "Reconcile now", "again", missing))
		if s.Paused() {
			all = append(all, annotateAction(s, "resume", "Resume", "play", missing))
		} else {
			all = append(all, annotateAction(s, "pause", "Pause", "pause", missing))
		}
	}
	for _, state := range states {
		all = append(all, planAction(s, state, len(states) > 1))
	}
	return append(all,
		web.Action{Label: "Edit", Icon: "edit", URL: s.URL("edit"), DisabledReason: missing},
		web.Action{Label: "Delete", Icon: "trash", URL: s.URL("delete"), Danger: true,
			DisabledReason: req.Refusal("delete", s.Ref)})
}

func annotateAction(s *Object, do, label, icon, missing string) web.Action {
	return web.Action{Label: label, Icon: icon, Post: true, URL: s.URL("annotate"), Fields: map[string]string{"do": do},
		DisabledReason: missing}
}

func planAction(s *Object, state inspect.ObjectState, several bool) web.Action {
	label := "Plan"
	if several {
		label += " by " + processes.ShortName(state.Controller)
	}
	return web.Action{
		Label: label, Icon: "wait", URL: s.URL("plan"), Post: true, Target: "#plan",
		Fields: map[string]string{"process": state.Process, "controller": state.Controller},
	}
}

// annotateObject sets an annotation that tells the controllers of an object what to do.
func annotateObject(req *Request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	if s.Deleted {
		return web.NotFound("%s %s is deleted.", s.Kind.Kind, s.Name)
	}
	var patch map[string]any
	var message string
	switch do := req.Field("do"); do {
	case "reconcile":
		patch, message = web.ReconcilePatch(req.Request), "Reconcile requested. The run appears in the timeline."
	case "pause":
		patch, message = web.AnnotationPatch(v1alpha1.AnnotationPaused, "true"),
			"Paused. The controller writes nothing until the object is resumed."
	case "resume":
		patch, message = web.AnnotationPatch(v1alpha1.AnnotationPaused, nil), "Resumed."
	default:
		return web.BadRequest("Unknown action %q.", do)
	}
	if err := web.Patch(req.Context(), req.Request, s.Ref, patch); err != nil {
		return err
	}
	req.Flash(message)
	return req.Redirect(s.URL())
}

// Plan is the data of a dry run.
type Plan struct {
	*Object
	Controller string
	Lines      []planLine
	Report     string
	// Fault is why the plan failed.
	Fault *fault
	// Edited is the object that is planned for in place of the stored one; nil for the stored one.
	Edited json.RawMessage
	// NotManaged reports that the controller does not manage the object.
	NotManaged bool
	// MissingPermission is what the user needs to see the plan.
	MissingPermission string
	CreatedAt         time.Time
}

// planLine is a line of a plan. Class is "add", "del", "change", "bad", "note" or "".
type planLine struct{ Text, Class string }

const maxPlanBytes = 256 << 10

func showPlan(req *Request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	t, c, err := req.Controller(req.Field("process"), req.Field("controller"))
	if err == nil {
		err = t.Err
	}
	if err != nil {
		return err
	}
	p := Plan{Object: s, Controller: c.Name, CreatedAt: req.Now()}
	if err := req.PlanBy(&p, t.Source, c); err != nil {
		return err
	}
	if req.IsFragment() {
		return req.RenderFragment("object_plan", "plan", p)
	}
	return req.Render(web.Page{Name: "object_plan", Title: "Plan for " + s.Kind.Kind + " " + s.Name, Section: "resources", Static: true,
		Data: p})
}

// PlanBy makes the plan of a controller if the user may read its child kinds. It is shown if the user may read all
// objects in it, which are known only afterwards. The process plans with its own permissions, so plans are logged and
// limited per user.
func (req *Request) PlanBy(p *Plan, source inspect.Source, c *inspect.Controller) error {
	for _, kind := range c.Children {
		if in := kind.Within(p.Namespace); !req.CanRead(kind, in) {
			p.MissingPermission = "The plan includes " + kind.Resource() + ", which you cannot get. " + web.Forbidden("get", kind, in)
			return nil
		}
	}
	user := req.User.Name
	if !req.pages.plans.Acquire(user) {
		req.W.Header().Set("Retry-After", web.RetryAfterSeconds)
		return &web.Problem{
			Status: http.StatusTooManyRequests, Title: "Too many plans",
			Text: fmt.Sprintf("Too many plans are running: the limit is %d per user and %d in total.", maxPlans, maxTotalPlans),
			Hint: "Try again in a moment.",
		}
	}
	defer req.pages.plans.Release(user)
	ctx, cancel := context.WithTimeout(req.Context(), planTimeout)
	defer cancel()
	began := time.Now()
	plan, err := source.Plan(ctx, p.Controller, p.Ref, p.Edited)
	req.Log.Info("planned for a dashboard user", "user", user, "controller", p.Controller, "process", source.Name(),
		"resource", p.Resource(), "namespace", p.Namespace, "name", p.Name, "took", time.Since(began).String(), "failed", err != nil)
	if err != nil {
		p.Fault, p.NotManaged = describeFault(err.Error(), record.FaultOf(err), planFailedTitle), errors.Is(err, failure.ErrNotFound)
		return nil
	}
	p.setPlan(&plan, req.UsesOwnCredentials(), req.CanRead)
	return nil
}

const planFailedTitle = "Plan failed"

// planTimeout is that of a plan, which calls hooks.
const planTimeout = 70 * time.Second

// Fail shows that there is no plan because of an error.
func (p *Plan) Fail(err error) { p.Fault = describeFault(err.Error(), nil, planFailedTitle) }

// setPlan sets the plan if the user may read all objects in it.
func (p *Plan) setPlan(plan *inspect.Plan, own bool, reads func(object.Kind, string) bool) {
	if !own {
		p.MissingPermission = forbiddenRef(plan.Refs, p.Ref, reads)
	}
	if p.MissingPermission == "" {
		p.Lines = planLines(plan.Text)
		p.Report, _ = diff.Pretty(plan.Report, maxPlanBytes)
	}
}

// forbiddenRef returns a message if the user may not read an object of the plan.
func forbiddenRef(refs []object.Ref, itself object.Ref, reads func(object.Kind, string) bool) string {
	if len(refs) == 0 {
		return "This process runs a version that does not list the objects of a plan, so only users who can read everything can see it."
	}
	for _, ref := range refs {
		if ref.Identity() != itself.Identity() && !reads(ref.Kind, ref.Namespace) {
			return "The plan includes objects that you cannot get. " + web.Forbidden("get", ref.Kind, ref.Namespace)
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

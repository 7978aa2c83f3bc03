package dashboard

import (
	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

type controllerPage struct {
	processes.ControllerRow
	// Objects or Reviews are what the page lists; the other is nil.
	Objects *objectList
	Reviews *reviewList
	Actions []web.Action
	// Caveat says what the process does not know about the controller.
	Caveat string
}

// HasTabs reports whether the controller manages objects and reviews requests.
func (p *controllerPage) HasTabs() bool { return p.Controller.Reviews && !p.reviewsOnly() }

// reviewsOnly reports whether the controller manages no objects.
func (p *controllerPage) reviewsOnly() bool {
	return p.AllReplicas || p.Controller.Reviews && p.Suspended
}

// ObjectCount returns the number of objects. A controller that watches none knows of none.
func (p *controllerPage) ObjectCount() int {
	if p.Objects != nil && p.Objects.Unwatched != "" {
		return p.Objects.Total
	}
	return p.Controller.Objects
}

// reviewCount is the number of reviews with one outcome since the process started.
type reviewCount struct {
	Outcome string
	Count   uint64
}

func (p *controllerPage) ReviewCounts() (counts []reviewCount) {
	for _, outcome := range []string{inspect.ReviewAllowed, inspect.ReviewMutated, inspect.ReviewDenied, inspect.ReviewFailed} {
		count := reviewCount{Outcome: outcome}
		for _, call := range p.Calls {
			if call.Outcome == outcome {
				count.Count += call.Count
			}
		}
		counts = append(counts, count)
	}
	return counts
}

// showController shows a controller with one of its lists.
func (req *request) showController(reviews bool) error {
	t, c, err := req.Controller(req.Path("process"), req.Path("controller"))
	if err != nil {
		return err
	}
	*c = inspect.RedactController(*c, req.Can) // The user may not read all that it says about objects.
	row := processes.NewControllerRow(c, t)
	data := &controllerPage{ControllerRow: row, Caveat: t.Process.CaveatFor(c), Actions: req.controllerActions(c)}
	if data.Lost != nil {
		data.Caveat = ""
	}
	if reviews || data.reviewsOnly() {
		reviewing := *c
		reviewing.AllReplicas = true
		data.Caveat = t.Process.CaveatFor(&reviewing)
		data.Reviews, err = req.listReviews(t, c)
	} else {
		data.Objects, err = req.listObjects(t, c)
	}
	if err != nil {
		return err
	}
	return req.Render(web.Page{Name: "controller", Title: row.ShortName, Section: "overview", Data: data})
}

// Why a controller without a manifest cannot be reconciled or suspended as a whole.
const (
	goProgramReconcileReason = "This controller is part of a Go program. Use setpoint reconcile KIND --all."
	goProgramReason          = "This controller is part of a Go program. To suspend it, stop the program or pause its objects."
)

func (req *request) controllerActions(c *inspect.Controller) []web.Action {
	page := web.ControllerURL(c.Process, c.Name)
	reconcile := web.Action{Label: "Reconcile all", Icon: "again", Post: true, URL: page + "/reconcile"}
	suspend := web.Action{Label: "Suspend", Icon: "pause", Post: true, URL: page + "/suspend"}
	if c.Suspended {
		suspend = web.Action{Label: "Resume", Icon: "play", Post: true, URL: page + "/resume"}
	}
	reconcile.DisabledReason = req.notReconcilable(c)
	if c.Declared == nil {
		suspend.DisabledReason = goProgramReason
		return []web.Action{reconcile, suspend}
	}
	suspend.DisabledReason = req.Refusal("patch", *c.Declared)
	return []web.Action{reconcile, suspend, {Label: "Manifest", URL: web.ObjectURL(*c.Declared)}}
}

// notReconcilable returns why the user cannot reconcile all objects of a controller; "" if the user can.
func (req *request) notReconcilable(c *inspect.Controller) string {
	switch {
	case c.AllReplicas:
		return "An admission controller manages no objects."
	case c.Declared == nil:
		return goProgramReconcileReason
	case c.Suspended:
		return "The controller is suspended."
	}
	return req.Refusal("patch", *c.Declared)
}

func suspendController(req *request) error {
	return req.patchController("Suspended. Its objects stay as they are.", func(c *inspect.Controller) map[string]any {
		if c.Declared.Group == v1alpha1.GroupVersion.Group {
			return map[string]any{"spec": map[string]any{"suspend": true}}
		}
		return web.AnnotationPatch(v1alpha1.AnnotationPaused, "true")
	})
}

func resumeController(req *request) error {
	return req.patchController("Resumed.", func(c *inspect.Controller) map[string]any {
		// Either of the two may have suspended it.
		patch := web.AnnotationPatch(v1alpha1.AnnotationPaused, nil)
		if c.Declared.Group == v1alpha1.GroupVersion.Group {
			patch["spec"] = map[string]any{"suspend": nil}
		}
		return patch
	})
}

func reconcileAll(req *request) error {
	return req.patchController("Reconciling all of its objects.",
		func(*inspect.Controller) map[string]any { return web.ReconcilePatch(req.Request) })
}

func (req *request) patchController(done string, change func(*inspect.Controller) map[string]any) error {
	_, c, err := req.Controller(req.Path("process"), req.Path("controller"))
	if err != nil {
		return err
	}
	if c.Declared == nil {
		return web.BadRequest("Controller %s is part of a Go program and has no manifest in the cluster.", c.Name)
	}
	if err := web.Patch(req.Context(), req.Request, *c.Declared, change(c)); err != nil {
		return err
	}
	req.Flash(done)
	return req.Redirect(web.ControllerURL(c.Process, c.Name))
}

package dashboard

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// goProgramReason explains why a controller without a manifest cannot be suspended.
const goProgramReason = "This controller is part of a Go program. To suspend it, stop the program or pause its objects."

// controllerActions returns the actions for a controller.
func (req *request) controllerActions(c *inspect.Controller) []action {
	page := controllerURL(c.Process, c.Name)
	reconcile := action{Label: "Reconcile all", Icon: "again", Post: true, URL: page + "/reconcile", DisabledReason: req.notReconcilable(c)}
	suspend := action{Label: "Suspend", Icon: "pause", Post: true, URL: page + "/suspend"}
	if c.Suspended {
		suspend = action{Label: "Resume", Icon: "play", Post: true, URL: page + "/resume"}
	}
	if c.Declared == nil {
		suspend.DisabledReason = goProgramReason
		return []action{reconcile, suspend}
	}
	suspend.DisabledReason = req.missingPermission("patch", *c.Declared)
	all := append([]action{reconcile, suspend}, req.rolloutActions(c)...)
	return append(all, action{Label: "Manifest", URL: objectURL(*c.Declared)})
}

// notReconcilable returns why the user cannot reconcile all objects of a controller; "" if the
// user can.
func (req *request) notReconcilable(c *inspect.Controller) string {
	switch {
	case c.AllReplicas:
		return "An admission controller manages no objects."
	case c.Declared != nil && c.Suspended:
		return "The controller is suspended."
	case c.Declared != nil:
		return req.missingPermission("patch", *c.Declared)
	case len(c.Kinds) == 0:
		return "The kinds of its objects are unknown."
	case len(req.reconcilableKinds(c)) == 0 && !req.can("list", c.Kinds[0], "", ""):
		return forbidden("list", c.Kinds[0], "")
	case len(req.reconcilableKinds(c)) == 0:
		return forbidden("patch", c.Kinds[0], "")
	}
	return ""
}

func suspendController(req *request) error {
	return req.patchController("Suspended. Its objects stay as they are.", func(c *inspect.Controller) map[string]any {
		if c.Declared.Group == v1alpha1.GroupVersion.Group {
			return map[string]any{"spec": map[string]any{"suspend": true}}
		}
		return annotationPatch(v1alpha1.AnnotationPaused, "true")
	})
}

func resumeController(req *request) error {
	return req.patchController("Resumed.", func(c *inspect.Controller) map[string]any {
		// Either of the two may have suspended it.
		patch := annotationPatch(v1alpha1.AnnotationPaused, nil)
		if c.Declared.Group == v1alpha1.GroupVersion.Group {
			patch["spec"] = map[string]any{"suspend": nil}
		}
		return patch
	})
}

func reconcileAll(req *request) error {
	source, c, err := req.controller()
	if err != nil {
		return err
	}
	if c.Declared != nil {
		return req.patchController("Reconciling all of its objects.",
			func(*inspect.Controller) map[string]any { return req.reconcilePatch() })
	}
	reason := req.notReconcilable(c)
	if err := req.accessErrors.first(); err != nil {
		return err
	}
	if reason != "" {
		return badRequest("%s", reason)
	}
	return req.reconcileObjects(source, c)
}

// annotationPatch returns a merge patch that sets an annotation, or removes it if value is nil.
func annotationPatch(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

// reconcilePatch returns a merge patch that requests a reconcile.
func (req *request) reconcilePatch() map[string]any {
	return annotationPatch(v1alpha1.AnnotationReconcileAt, plan.ReconcileRequest{At: req.now(), By: req.identity.User.Name}.String())
}

// patchController patches the manifest of a controller as the user.
func (req *request) patchController(done string, change func(*inspect.Controller) map[string]any) error {
	_, c, err := req.controller()
	if err != nil {
		return err
	}
	if c.Declared == nil {
		return badRequest("Controller %s is part of a Go program and has no manifest in the cluster.", c.Name)
	}
	if err := req.patch(req.context(), *c.Declared, change(c)); err != nil {
		return err
	}
	req.flash(done)
	return req.redirect(controllerURL(c.Process, c.Name))
}

// patch merges a change into an object as the user.
func (req *request) patch(ctx context.Context, ref object.Ref, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if ref.Plural == "" || ref.Version == "" {
		if ref.Kind, err = req.api.Kind(ctx, ref.Resource()); err != nil {
			return err
		}
	}
	_, err = req.api.Patch(ctx, ref, types.MergePatchType, body, userclient.WriteOptions{})
	return err
}

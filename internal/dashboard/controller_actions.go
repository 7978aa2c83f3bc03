package dashboard

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// goProgramReason explains why a controller without a manifest cannot be suspended.
const goProgramReason = "This controller is part of a Go program. To suspend it, stop the program or pause its objects."

// suspendButton returns the button that suspends or resumes a controller.
func (req *request) suspendButton(c *model.Controller) formButton {
	a := formButton{URL: controllerURL(c.Process, c.Name) + "/suspend", Label: "Suspend"}
	if c.Suspended {
		a.URL, a.Label = controllerURL(c.Process, c.Name)+"/resume", "Resume"
	}
	if c.Declared == nil {
		a.DisabledReason = goProgramReason
		return a
	}
	return req.enableIfPatchAllowed(a, *c.Declared)
}

// reconcileButton returns the button that reconciles all objects of a controller.
func (req *request) reconcileButton(c *model.Controller) formButton {
	a := formButton{URL: controllerURL(c.Process, c.Name) + "/reconcile", Label: "Reconcile all"}
	switch {
	case c.AllReplicas:
		a.DisabledReason = "An admission controller manages no objects."
		return a
	case c.Declared == nil && len(c.Kinds) == 0:
		a.DisabledReason = "The kinds of its objects are unknown."
		return a
	case c.Declared == nil:
		if a.Enabled = len(req.reconcilableKinds(c)) > 0; !a.Enabled {
			a.DisabledReason = "You do not have permission to " + describePermission("list and patch", c.Kinds[0], "") + "."
		}
		return a
	case c.Suspended:
		a.DisabledReason = "The controller is suspended."
		return a
	}
	return req.enableIfPatchAllowed(a, *c.Declared)
}

// enableIfPatchAllowed enables a button if the user may patch the object.
func (req *request) enableIfPatchAllowed(a formButton, ref object.Ref) formButton {
	if a.Enabled = req.can("patch", ref.Kind, ref.Namespace, ref.Name); !a.Enabled {
		a.DisabledReason = "You do not have permission to patch " + ref.Resource() + "."
	}
	return a
}

// DisabledReasons returns the distinct reasons why buttons are disabled.
func (p *controllerPage) DisabledReasons() []string {
	switch {
	case p.Suspend.DisabledReason == "" || p.Suspend.DisabledReason == p.Reconcile.DisabledReason:
		return slices.DeleteFunc([]string{p.Reconcile.DisabledReason}, func(why string) bool { return why == "" })
	case p.Reconcile.DisabledReason == "":
		return []string{p.Suspend.DisabledReason}
	}
	return []string{p.Reconcile.Label + ": " + p.Reconcile.DisabledReason, p.Suspend.Label + ": " + p.Suspend.DisabledReason}
}

func suspendController(req *request) error {
	return req.patchController("Suspended. Its objects stay as they are.", func(c *model.Controller) map[string]any {
		if c.Declared.Group == v1alpha1.GroupVersion.Group {
			return map[string]any{"spec": map[string]any{"suspend": true}}
		}
		return annotationPatch(v1alpha1.AnnotationPaused, "true")
	})
}

func resumeController(req *request) error {
	return req.patchController("Resumed.", func(c *model.Controller) map[string]any {
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
	if c.Declared == nil {
		able := req.reconcileButton(c)
		if err := req.accessErrors.first(); err != nil {
			return err
		}
		if !able.Enabled {
			return badRequest("%s", able.DisabledReason)
		}
		return req.reconcileObjects(source, c)
	}
	return req.patchController("Reconciling all of its objects.", func(*model.Controller) map[string]any {
		return annotationPatch(v1alpha1.AnnotationReconcileAt, req.now().UTC().Format(time.RFC3339Nano))
	})
}

// annotationPatch returns a merge patch that sets an annotation, or removes it if value is nil.
func annotationPatch(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

// patchController patches the manifest of a controller as the user.
func (req *request) patchController(done string, change func(*model.Controller) map[string]any) error {
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
	_, err = req.api.Patch(ctx, ref, types.MergePatchType, body)
	return err
}

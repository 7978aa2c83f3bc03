package ui

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// inProgram says how a controller is suspended that no object declares.
const inProgram = "This controller is part of a Go program: to have it rest, stop the program, or pause its objects one by one."

// suspending says whether a controller can be suspended, or resumed, by the visitor.
func (v *visit) suspending(c *inspect.Controller) ability {
	a := ability{At: controllerURL(c.Process, c.Name) + "/suspend", Label: "Suspend"}
	if c.Suspended {
		a.At, a.Label = controllerURL(c.Process, c.Name)+"/resume", "Resume"
	}
	if c.Declared == nil {
		a.Why = inProgram
		return a
	}
	return v.permitted(a, *c.Declared)
}

// reconciling says whether all objects of a controller can be reconciled at once.
func (v *visit) reconciling(c *inspect.Controller) ability {
	a := ability{At: controllerURL(c.Process, c.Name) + "/reconcile", Label: "Reconcile all"}
	switch {
	case c.Everywhere:
		a.Why = "It reviews what others write, and has no objects in its care."
		return a
	case c.Declared == nil && len(c.Kinds) == 0:
		a.Why = "It is not known here which objects it handles."
		return a
	case c.Declared == nil:
		if a.Can = len(v.askable(c)) > 0; !a.Can {
			a.Why = "You lack the right to " + missingRight("list and patch", c.Kinds[0], "") + "."
		}
		return a
	case c.Suspended:
		a.Why = "It is suspended."
		return a
	}
	return v.permitted(a, *c.Declared)
}

// permitted says whether the visitor may write to an object, as something takes.
func (v *visit) permitted(a ability, ref inspect.Ref) ability {
	if a.Can = v.may("patch", ref.Kind, ref.Namespace, ref.Name); !a.Can {
		a.Why = "You lack the right to patch " + ref.Resource() + "."
	}
	return a
}

// Cannot are the reasons why something cannot be done, each once.
func (p *controllerPage) Cannot() []string {
	switch {
	case p.Suspend.Why == "" || p.Suspend.Why == p.Reconcile.Why:
		return slices.DeleteFunc([]string{p.Reconcile.Why}, func(why string) bool { return why == "" })
	case p.Reconcile.Why == "":
		return []string{p.Suspend.Why}
	}
	return []string{p.Reconcile.Label + ": " + p.Reconcile.Why, p.Suspend.Label + ": " + p.Suspend.Why}
}

func suspendController(v *visit) error {
	return v.changeController("It is suspended: its objects stay as they are.", func(c *inspect.Controller) map[string]any {
		if c.Declared.Group == v1alpha1.GroupVersion.Group {
			return map[string]any{"spec": map[string]any{"suspend": true}}
		}
		return annotated(v1alpha1.AnnotationPaused, "true")
	})
}

func resumeController(v *visit) error {
	return v.changeController("It is at work again.", func(c *inspect.Controller) map[string]any {
		// Whichever of the two had it suspended.
		patch := annotated(v1alpha1.AnnotationPaused, nil)
		if c.Declared.Group == v1alpha1.GroupVersion.Group {
			patch["spec"] = map[string]any{"suspend": nil}
		}
		return patch
	})
}

func reconcileAll(v *visit) error {
	source, c, err := v.controller()
	if err != nil {
		return err
	}
	if c.Declared == nil {
		able := v.reconciling(c)
		if err := v.doubt.reason(); err != nil {
			return err
		}
		if !able.Can {
			return invalid("%s", able.Why)
		}
		return v.reconcileEach(source, c)
	}
	return v.changeController("All of its objects are being looked at.", func(*inspect.Controller) map[string]any {
		return annotated(v1alpha1.AnnotationReconcileAt, v.now().UTC().Format(time.RFC3339Nano))
	})
}

// annotated is a patch that sets an annotation, or takes it away.
func annotated(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

// changeController patches the object that declares a controller, as the visitor.
func (v *visit) changeController(done string, change func(*inspect.Controller) map[string]any) error {
	_, c, err := v.controller()
	if err != nil {
		return err
	}
	if c.Declared == nil {
		return invalid("The controller %s is part of a Go program: no object of the cluster declares it.", c.Name)
	}
	if err := v.patch(v.context(), *c.Declared, change(c)); err != nil {
		return err
	}
	v.flash(done)
	return v.redirect(controllerURL(c.Process, c.Name))
}

// patch merges a change into an object, as the visitor.
func (v *visit) patch(ctx context.Context, ref inspect.Ref, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if ref.Plural == "" || ref.Version == "" {
		if ref.Kind, err = v.api.Kind(ctx, ref.Resource()); err != nil {
			return err
		}
	}
	_, err = v.api.Patch(ctx, ref, types.MergePatchType, body)
	return err
}

package web

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Action is something that the user can do with an object or a controller, or why not.
type Action struct {
	Label, URL, Icon string
	// Post actions are forms; others are links.
	Post bool
	// Fields are the hidden fields of the form.
	Fields map[string]string
	// DisabledReason is why the user cannot do it; "" if they can.
	DisabledReason string
	// Target is the element that shows the response; "" to load another page.
	Target string
	Danger bool
}

func disabledReasons(actions []Action) (all []string) {
	for _, a := range actions {
		if a.DisabledReason != "" {
			all = append(all, a.Label+": "+a.DisabledReason)
		}
	}
	return all
}

// AnnotationPatch returns a merge patch that sets an annotation, or removes it if value is nil.
func AnnotationPatch(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

// ReconcilePatch returns a merge patch that requests a reconcile.
func ReconcilePatch(req *Request) map[string]any {
	return AnnotationPatch(v1alpha1.AnnotationReconcileAt, plan.ReconcileRequest{At: req.Now(), By: req.User.Name}.String())
}

// Patch merges a change into an object as the user.
func Patch(ctx context.Context, req *Request, ref object.Ref, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if ref.Plural == "" || ref.Version == "" {
		if ref.Kind, err = req.API.FindKind(ctx, ref.Resource()); err != nil {
			return err
		}
	}
	_, err = req.API.Patch(ctx, ref, types.MergePatchType, body, userclient.WriteOptions{})
	return err
}

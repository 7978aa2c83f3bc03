package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ReasonReleased is for an object in a terminating or deleted namespace from which Setpoint removed its finalizer with its
// own rights, because the ServiceAccount of the controller is gone or has lost its rights. On a controller: Setpoint
// removed the finalizer from objects outside of the namespaces in the spec, without a call of a hook. What to do: clean
// up by hand what finalizers of the controller would have removed outside of the cluster.
const ReasonReleased = "Released"

// abandonAfter is how long objects that are left of a deleted one hold it in a terminating namespace when the
// ServiceAccount of its controller can do nothing for them.
const abandonAfter = time.Minute

// Abandoned is an object whose deletion fails.
type Abandoned struct {
	// Forbidden means that the API server forbids what the latest run did, for the reason Why.
	Forbidden bool
	Why       string
	// Finalizer is that of the controller.
	Finalizer string
	// Left is how many objects are left of it.
	Left int
}

// ReleaseAbandoned removes the finalizer from an object in a terminating or deleted namespace if the ServiceAccount of
// the controller may not, and returns it as stored; nil if the object has to wait. No account or right can be given back
// there: the namespace accepts no new objects. Before Kubernetes 1.37, a deleted one accepts no updates either.
func (r *Run) ReleaseAbandoned(ctx context.Context, a Abandoned) (*object.Object, error) {
	if !a.Forbidden || !r.Stored.Deleting() || !r.Stored.HasFinalizer(a.Finalizer) || r.Stored.Namespace() == "" {
		return nil, nil //nolint:nilnil // The object waits.
	}
	own := r.base.Writer // It has Setpoint's own rights.
	namespace, err := own.Get(ctx, object.Namespaces, "", r.Stored.Namespace())
	gone := apply.NotFound(err)
	if !gone && (err != nil || !namespace.Deleting()) {
		return nil, nil //nolint:nilnil,nilerr // The cause says what is missing.
	}
	if failing := r.common().Result; a.Left > 0 && (!failing.Failing || r.base.Since(failing.Since) < abandonAfter) {
		return nil, nil //nolint:nilnil // The namespace controller deletes what is left.
	}
	body, err := RemovalOf(a.Finalizer, r.Stored)
	if err != nil {
		return nil, err
	}
	stored, err := own.Patch(ctx, r.base.options.Resource, r.Stored, body, "")
	switch {
	case apply.NotFound(err), apply.Conflict(err):
		return nil, ErrConflict
	case err != nil && gone:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("remove the finalizer with Setpoint's own rights, since the namespace is terminating: %w", err)
	}
	message := fmt.Sprintf("removed the finalizer %s of %s from %s: the controller could not finish its deletion: %s",
		a.Finalizer, r.base.options.Name, r.Stored.Ref(), a.Why)
	if a.Left > 0 {
		message += fmt.Sprintf("; objects left of it: %d", a.Left)
	}
	r.Log.Warn("finalizer removed in a terminating or deleted namespace", "object", r.Stored.Ref().String(), "error", a.Why)
	if !gone { // It accepts no events either, so this one is about it.
		r.base.Observer.OwnEvent(namespace, hook.Event{Type: Warning, Reason: ReasonReleased, Message: message})
	}
	return stored, nil
}

// IsForbidden reports whether the API server, or a review of it, forbids what a run did, other than to create
// something in a terminating namespace.
func IsForbidden(err error) bool {
	return errors.Is(err, identity.ErrForbidden) || apierrors.IsForbidden(err) && !apply.Terminating(err)
}

// RemovalOf returns the merge patch that removes a finalizer from this version of an object.
func RemovalOf(finalizer string, o *object.Object) ([]byte, error) {
	left := slices.DeleteFunc(o.Finalizers(), func(name string) bool { return name == finalizer })
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.UID(), "resourceVersion": o.ResourceVersion(), "finalizers": left,
	}})
}

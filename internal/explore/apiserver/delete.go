package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// deleteLive handles DELETE.
func (w *write) deleteLive() (*outcome, error) {
	options, err := w.deleteOptions()
	if err != nil {
		return nil, err
	}
	if w.live == nil {
		return nil, apierrors.NewNotFound(w.groupResource(), w.name)
	}
	if err := w.checkPreconditions(options.Preconditions); err != nil {
		return nil, err
	}
	return w.deleteAs(options)
}

// deleteAs deletes the object, or marks it if it ends gracefully or has finalizers.
func (w *write) deleteAs(options *metav1.DeleteOptions) (*outcome, error) {
	o := w.liveObject()
	if w.kind.Kind == namespaces.Kind && w.kind.Group == "" {
		return w.deleteNamespace(o, options)
	}
	graceful, pending := w.setGrace(o, options)
	if pending {
		return w.unchanged(http.StatusOK), nil
	}
	o.SetFinalizers(deletionFinalizers(o.GetFinalizers(), options, w.kind.Rules.Orphans))
	switch {
	case graceful && (len(o.GetFinalizers()) > 0 || *o.GetDeletionGracePeriodSeconds() > 0):
		return w.store(http.StatusOK, o)
	case !graceful && len(o.GetFinalizers()) > 0:
		w.markDeleting(o, 0)
		return w.store(http.StatusOK, o)
	}
	if w.kind.Rules.ReturnsDeleted {
		return w.removeLive(), nil
	}
	return w.remove()
}

// deleteOptions reads the body, or without one whether it is a dry run.
func (r *request) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(r.body) == 0 {
		options.DryRun = r.query["dryRun"]
	} else if err := json.Unmarshal(r.body, options); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(options.DryRun) > 0 {
		r.query.Set("dryRun", metav1.DryRunAll)
	} else {
		r.query.Del("dryRun")
	}
	if errs := metavalidation.ValidateDeleteOptions(options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return options, nil
}

func (w *write) checkPreconditions(p *metav1.Preconditions) error {
	kind := schema.GroupResource{Group: w.kind.Group, Resource: w.kind.Kind}
	switch {
	case p == nil:
	case p.UID != nil && string(*p.UID) != w.live.UID():
		return apierrors.NewConflict(kind, w.name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *p.UID, w.live.UID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != w.live.ResourceVersion():
		return apierrors.NewConflict(kind, w.name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the "+
			"ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, w.live.ResourceVersion()))
	}
	return nil
}

// setGrace marks a pod that has time to end. It reports whether it did, or whether an earlier deletion is pending
// that is at least as fast.
func (w *write) setGrace(o *unstructured.Unstructured, options *metav1.DeleteOptions) (graceful, pending bool) {
	if !w.kind.IsPod() {
		return false, false
	}
	if o.GetDeletionTimestamp() != nil {
		return w.shortenGrace(o, options.GracePeriodSeconds)
	}
	seconds := int64(30)
	if given, is := kinds.Nested(o, "spec", "terminationGracePeriodSeconds").(int64); is {
		seconds = given
	}
	if options.GracePeriodSeconds != nil {
		seconds = *options.GracePeriodSeconds
	}
	if seconds < 0 {
		seconds = 1
	}
	// A pod that is on no node, or that has ended, has nothing to wait for.
	phase := kinds.Nested(o, "status", "phase")
	if node, _ := kinds.Nested(o, "spec", "nodeName").(string); node == "" || phase == "Succeeded" || phase == "Failed" {
		seconds = 0
	}
	w.markDeleting(o, seconds)
	return true, false
}

// shortenGrace sets a shorter grace period.
func (w *write) shortenGrace(o *unstructured.Unstructured, seconds *int64) (graceful, pending bool) {
	before := o.GetDeletionGracePeriodSeconds()
	switch {
	case before == nil || *before == 0:
		return false, false
	case seconds == nil || *seconds >= *before:
		return false, true
	}
	w.markDeleting(o, max(*seconds, 0))
	return true, false
}

// markDeleting sets the time by which the object is to be gone.
func (w *write) markDeleting(o *unstructured.Unstructured, seconds int64) {
	if o.GetDeletionTimestamp() == nil && o.GetGeneration() > 0 {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	at := metav1.NewTime(Epoch.Add(time.Duration(seconds) * time.Second))
	o.SetDeletionTimestamp(&at)
	o.SetDeletionGracePeriodSeconds(&seconds)
}

// deletionFinalizers returns the finalizers of an object that is deleted: the garbage collector has one of its own
// for dependents that are orphaned or go first.
func deletionFinalizers(have []string, options *metav1.DeleteOptions, orphansByDefault bool) []string {
	after := lists.Filter(have, func(name string) bool {
		return name != metav1.FinalizerOrphanDependents && name != metav1.FinalizerDeleteDependents
	})
	if finalizer := propagationFinalizer(have, options, orphansByDefault); finalizer != "" {
		after = append(after, finalizer)
	}
	if sets.New(have...).Equal(sets.New(after...)) {
		return have
	}
	return after
}

// propagationFinalizer returns the finalizer for dependents; "" if they are deleted in the background.
func propagationFinalizer(have []string, options *metav1.DeleteOptions, orphansByDefault bool) string {
	if policy := options.PropagationPolicy; policy != nil {
		return map[metav1.DeletionPropagation]string{
			metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
			metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
		}[*policy]
	}
	for _, name := range have {
		if name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents {
			return name
		}
	}
	if orphansByDefault {
		return metav1.FinalizerOrphanDependents
	}
	return ""
}

// deleteNamespace marks a namespace, which goes when it is empty.
func (w *write) deleteNamespace(o *unstructured.Unstructured, options *metav1.DeleteOptions) (*outcome, error) {
	if slices.Contains([]string{"default", "kube-system", "kube-public"}, w.name) {
		return nil, apierrors.NewForbidden(w.groupResource(), w.name, errors.New("this namespace may not be deleted"))
	}
	if o.GetDeletionTimestamp() != nil {
		if hasSpecFinalizers(o) || len(o.GetFinalizers()) > 0 {
			return w.unchanged(http.StatusOK), nil
		}
		return w.removeLive(), nil
	}
	at := metav1.NewTime(Epoch)
	o.SetDeletionTimestamp(&at)
	kinds.SetNested(o, string(corev1.NamespaceTerminating), "status", "phase")
	o.SetFinalizers(deletionFinalizers(o.GetFinalizers(), options, false))
	return w.store(http.StatusOK, o)
}

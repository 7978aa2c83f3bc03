package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
)

// namespacePhase says what a namespace means for a write.
type namespacePhase int

const (
	// exists also stands for kinds without a namespace.
	exists namespacePhase = iota
	missing
	terminating
)

// phase returns the phase of a request's namespace.
func (s *State) phase(r *request) namespacePhase {
	if r.namespace == "" {
		return exists
	}
	switch namespace := s.Get(namespaces, "", r.namespace); {
	case namespace == nil:
		return missing
	case namespace.Deleting():
		return terminating
	}
	return exists
}

// checkPhase rejects a creation in a namespace that is missing or being deleted.
func (w *write) checkPhase() error {
	switch w.phase {
	case missing:
		return apierrors.NewNotFound(schema.GroupResource{Resource: namespaces.Plural}, w.namespace)
	case terminating:
		reason := fmt.Errorf("unable to create new content in namespace %s because it is being terminated", w.namespace)
		err := apierrors.NewForbidden(w.groupResource(), w.name, reason)
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", w.namespace),
			Field: "metadata.namespace",
		})
		return err
	}
	return nil
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

// prepareFinalize keeps all but the finalizers in the spec.
func prepareFinalize(live, o *unstructured.Unstructured) {
	finalizers := kinds.Nested(o, "spec", "finalizers")
	managed := o.GetManagedFields()
	o.Object = live.DeepCopy().Object
	o.SetManagedFields(managed)
	kinds.SetNested(o, finalizers, "spec", "finalizers")
}

// hasSpecFinalizers reports whether a namespace still has content, as far as its spec says.
func hasSpecFinalizers(o *unstructured.Unstructured) bool {
	finalizers, _ := kinds.Nested(o, "spec", "finalizers").([]any)
	return len(finalizers) > 0 && o.GetKind() == namespaces.Kind && o.GetAPIVersion() == namespaces.Version
}

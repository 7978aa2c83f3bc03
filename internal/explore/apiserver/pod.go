package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// success is the response to a binding or an eviction.
func success() response {
	return jsonResponse(http.StatusCreated, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	})
}

// bind puts a pod on a node, as the scheduler does.
func (w *write) bind() (*outcome, error) {
	var binding corev1.Binding
	if err := json.Unmarshal(w.body, &binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if w.live == nil {
		return nil, apierrors.NewNotFound(w.groupResource(), w.name)
	}
	o := w.liveObject()
	if node := nested(o, "spec", "nodeName"); node != nil && node != "" || o.GetDeletionTimestamp() != nil {
		return nil, apierrors.NewConflict(w.groupResource(), w.name, fmt.Errorf("pod %s is already assigned to a node or being deleted",
			w.name))
	}
	setField(o, binding.Target.Name, "spec", "nodeName")
	setCondition(o, "PodScheduled", w.server.now)
	out, err := w.store(http.StatusCreated, o)
	if err == nil {
		out.body = success().body
	}
	return out, err
}

// setCondition sets a condition of a pod to true.
func setCondition(o *unstructured.Unstructured, name string, now time.Time) {
	conditions, _ := nested(o, "status", "conditions").([]any)
	conditions = slices.DeleteFunc(slices.Clone(conditions), func(condition any) bool {
		members, _ := condition.(map[string]any)
		return members["type"] == name
	})
	setField(o, append(conditions, map[string]any{
		"type": name, "status": "True", "lastTransitionTime": now.UTC().Format(time.RFC3339),
	}), "status", "conditions")
}

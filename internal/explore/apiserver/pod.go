package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
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
		return nil, apierrors.NewConflict(w.groupResource(), w.name, fmt.Errorf("pod %s is already assigned to a node or being deleted", w.name))
	}
	setField(o, binding.Target.Name, "spec", "nodeName")
	setCondition(o, "PodScheduled", w.server.now)
	out, err := w.store(http.StatusCreated, o)
	if err == nil {
		out.body = success().body
	}
	return out, err
}

// evict deletes a pod if its disruption budgets allow that now.
func (s *Server) evict(state *State, req *request) (*State, response) {
	var eviction policyv1.Eviction
	if err := json.Unmarshal(req.body, &eviction); err != nil {
		return state, failed(apierrors.NewBadRequest(err.Error()))
	}
	pod := state.Stored(req.kind.Resource, req.namespace, req.name)
	if pod == nil {
		return state, failed(apierrors.NewNotFound(req.groupResource(), req.name))
	}
	if eviction.Name != "" && eviction.Name != req.name {
		return state, failed(apierrors.NewBadRequest(fmt.Sprintf("name in URL does not match name in Eviction object: %q != %q", eviction.Name, req.name)))
	}
	if err := state.checkDisruption(pod.Object); err != nil {
		return state, failed(err)
	}
	deletion := *req
	deletion.method, deletion.subresource, deletion.query = http.MethodDelete, "", nil
	deletion.query = map[string][]string{}
	deletion.body = nil
	if eviction.DeleteOptions != nil {
		var err error
		if deletion.body, err = json.Marshal(eviction.DeleteOptions); err != nil {
			return state, failed(err)
		}
	}
	after, response := s.write(state, &deletion)
	if response.code != http.StatusOK {
		return after, response
	}
	return after, success()
}

// checkDisruption rejects an eviction that a disruption budget does not allow. A pod that is not ready, or already
// being deleted, is no disruption.
func (s *State) checkDisruption(pod *object.Object) error {
	if pod.Deleting() {
		return nil
	}
	for resource, o := range s.All() {
		if fullName(resource) != "PodDisruptionBudget.policy" || o.Namespace() != pod.Namespace() {
			continue
		}
		var budget policyv1.PodDisruptionBudget
		if err := json.Unmarshal(o.JSON(), &budget); err != nil {
			return err
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || !selector.Matches(labels.Labels(pod.Labels())) {
			continue
		}
		if budget.Status.ObservedGeneration < budget.Generation || budget.Status.DisruptionsAllowed <= 0 {
			return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		}
	}
	return nil
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

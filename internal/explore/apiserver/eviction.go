package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// evict deletes a pod if its disruption budget allows that now.
func (s *Server) evict(state *State, req *request) (*State, response) {
	var eviction policyv1.Eviction
	if err := json.Unmarshal(req.body, &eviction); err != nil {
		return state, failed(apierrors.NewBadRequest(err.Error()))
	}
	pod := state.Get(req.kind.Resource, req.namespace, req.name)
	if pod == nil {
		return state, failed(apierrors.NewNotFound(req.groupResource(), req.name))
	}
	if eviction.Name != "" && eviction.Name != req.name {
		return state, failed(apierrors.NewBadRequest(fmt.Sprintf("name in URL does not match name in Eviction object: %q != %q",
			eviction.Name, req.name)))
	}
	deletion, err := req.deletion(eviction.DeleteOptions)
	if err != nil {
		return state, failed(err)
	}
	after, err := s.disrupt(state, pod, req.dryRun())
	if err != nil {
		return state, failed(err)
	}
	after, response := s.write(after, deletion)
	if response.code != http.StatusOK {
		return after, response
	}
	return after, success()
}

// deletion returns the request for the deletion that an eviction is. A dry run may be that of either.
func (r *request) deletion(options *metav1.DeleteOptions) (*request, error) {
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	if r.dryRun() {
		options.DryRun = r.query["dryRun"]
	} else if len(options.DryRun) > 0 {
		r.query.Set("dryRun", metav1.DryRunAll)
	}
	body, err := json.Marshal(options)
	one := *r
	one.method, one.subresource, one.rawQuery, one.query, one.body = http.MethodDelete, "", "", url.Values{}, body
	return &one, err
}

// disrupt counts the eviction of a pod in its disruption budget, or rejects it. A pod that does not run yet or any
// more is no disruption.
func (s *Server) disrupt(state *State, pod *object.Object, dryRun bool) (*State, error) {
	var is corev1.Pod
	if err := json.Unmarshal(pod.JSON(), &is); err != nil {
		return state, err
	}
	if is.DeletionTimestamp != nil || is.Status.Phase != corev1.PodRunning && is.Status.Phase != corev1.PodUnknown {
		return state, nil
	}
	budgets, err := state.budgetsOf(&is)
	if err != nil || len(budgets) == 0 {
		return state, err
	}
	if len(budgets) > 1 {
		return state, errors.New("the pod has more than one PodDisruptionBudget, which the eviction subresource does not support")
	}
	budget := &budgets[0]
	switch {
	case !isReady(&is) && mayEvictUnready(budget):
		return state, nil
	case budget.Status.ObservedGeneration < budget.Generation, budget.Status.DisruptionsAllowed <= 0:
		return state, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	case dryRun:
		return state, nil
	}
	return s.countDisruption(state, budget, pod.Name())
}

//nolint:gochecknoglobals // A struct cannot be a constant.
var disruptionBudget = object.GroupKind{Group: policyv1.GroupName, Kind: "PodDisruptionBudget"}

func (s *State) budgetsOf(pod *corev1.Pod) ([]policyv1.PodDisruptionBudget, error) {
	var found []policyv1.PodDisruptionBudget
	for o := range s.Objects() {
		if o.GroupKind() != disruptionBudget || o.Namespace() != pod.Namespace {
			continue
		}
		var budget policyv1.PodDisruptionBudget
		if err := json.Unmarshal(o.JSON(), &budget); err != nil {
			return nil, err
		}
		if selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	return found, nil
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// mayEvictUnready reports whether a budget allows the eviction of pods that are not ready, which it does not count.
func mayEvictUnready(budget *policyv1.PodDisruptionBudget) bool {
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy
}

// countDisruption notes a pod in the status of its budget, so that the next one is not evicted too before the
// controller of budgets has seen it.
func (s *Server) countDisruption(state *State, budget *policyv1.PodDisruptionBudget, pod string) (*State, error) {
	body, err := json.Marshal(map[string]any{"status": map[string]any{
		"disruptionsAllowed": budget.Status.DisruptionsAllowed - 1,
		"disruptedPods":      map[string]any{pod: Epoch.Format(time.RFC3339)},
	}})
	if err != nil {
		return state, err
	}
	after, _, err := s.Send(state, "kube-apiserver", Request{
		Method: http.MethodPatch, Resource: s.groups[disruptionBudget].Resource, Namespace: budget.Namespace,
		Name: budget.Name, Subresource: "status", Type: types.MergePatchType, Body: body,
	})
	return after, err
}

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
	if node := kinds.Nested(o, "spec", "nodeName"); node != nil && node != "" || o.GetDeletionTimestamp() != nil {
		return nil, apierrors.NewConflict(w.groupResource(), w.name, fmt.Errorf("pod %s is already assigned to a node or being deleted",
			w.name))
	}
	kinds.SetNested(o, binding.Target.Name, "spec", "nodeName")
	setCondition(o, "PodScheduled")
	out, err := w.store(http.StatusCreated, o)
	if err == nil {
		out.body = success().body
	}
	return out, err
}

// setCondition sets a condition of a pod to true.
func setCondition(o *unstructured.Unstructured, name string) {
	conditions, _ := kinds.Nested(o, "status", "conditions").([]any)
	conditions = slices.DeleteFunc(slices.Clone(conditions), func(condition any) bool {
		members, _ := condition.(map[string]any)
		return members["type"] == name
	})
	kinds.SetNested(o, append(conditions, map[string]any{
		"type": name, "status": "True", "lastTransitionTime": Epoch.Format(time.RFC3339),
	}), "status", "conditions")
}

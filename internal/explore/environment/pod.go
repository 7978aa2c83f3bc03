package environment

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
)

// nodeName is the node of all pods.
const nodeName = "node-0"

// pod is the model of the scheduler and the kubelet.
func pod(s *stepper) {
	phase := text(s.status, "phase")
	scheduled := text(s.spec, "nodeName") != ""
	switch {
	case phase == "Succeeded" || phase == "Failed":
		if s.object.Deleting() {
			s.step("is removed", s.remove())
		}
	case s.object.Deleting():
		if scheduled {
			s.terminatePod()
		}
	case !scheduled:
		bind := s.post("binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"`+s.object.Name()+
			`"},"target":{"kind":"Node","name":"`+nodeName+`"}}`)
		s.add("kube-scheduler", "is scheduled", false, []apiserver.Request{bind})
	case phase != "Running":
		s.step("starts", s.podStatus("Running", false))
	default:
		s.runningPod()
	}
}

// runningPod adds the steps of a pod that runs.
func (s *stepper) runningPod() {
	if s.isTrue("Ready") {
		s.failure("becomes not ready", s.podStatus("Running", false))
	} else {
		s.step("becomes ready", s.podStatus("Running", true))
	}
	if policy := text(s.spec, "restartPolicy"); policy == "Never" || policy == "OnFailure" {
		s.step("succeeds", s.podStatus("Succeeded", false))
	}
	s.failure("fails", s.podStatus("Failed", false))
}

// terminatePod adds the steps of a pod that is being deleted: its containers stop, then it goes. A pod may stop
// being ready before it is gone.
func (s *stepper) terminatePod() {
	if s.isTrue("Ready") {
		s.step("stops", s.podStatus("Running", false))
	}
	s.step("ends", s.remove())
}

// podStatus sets phase and readiness, and the states of the containers to match.
func (s *stepper) podStatus(phase string, ready bool) apiserver.Request {
	conditions := s.conditions(
		condition{name: "Initialized", true: true},
		condition{name: "Ready", true: ready},
		condition{name: "ContainersReady", true: ready},
		condition{name: "PodScheduled", true: true},
	)
	return s.setStatus(map[string]any{
		"phase": phase, "conditions": conditions, "containerStatuses": s.containers(phase, ready),
		"hostIP": "10.0.0.1", "podIP": "10.244.0.1",
	})
}

func (s *stepper) containers(phase string, ready bool) []any {
	list, _ := s.spec["containers"].([]any)
	states := make([]any, 0, len(list))
	for _, each := range list {
		fields, _ := each.(map[string]any)
		state := map[string]any{"running": map[string]any{}}
		if slices.Contains([]string{"Succeeded", "Failed"}, phase) {
			code := 0
			if phase == "Failed" {
				code = 1
			}
			state = map[string]any{"terminated": map[string]any{"exitCode": code}}
		}
		states = append(states, map[string]any{
			"name": fields["name"], "image": fields["image"], "imageID": "", "ready": ready, "restartCount": 0, "state": state,
		})
	}
	return states
}

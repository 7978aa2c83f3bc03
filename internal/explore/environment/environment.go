// Package environment models what other programs than controllers of Setpoint do to objects: the scheduler and the
// kubelet, and the controllers of Kubernetes.
//
// A model is a function from a state to the states that can follow by one step. It leaves out what a controller
// cannot rely on, such as times, and makes no ReplicaSets and Pods for workloads: it counts them.
// test/explore compares each model with the real control plane.
package environment

import (
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Environment has the models of a server. It is safe for concurrent use.
type Environment struct {
	server *apiserver.Server
	models map[object.GroupKind]model
}

// model adds the next steps of an object, which are those of a manager but for what it says.
type model struct {
	manager string
	steps   func(*stepper)
}

// New returns the environment of a server.
func New(server *apiserver.Server) *Environment {
	const controllers = "kube-controller-manager"
	return &Environment{server: server, models: map[object.GroupKind]model{
		{Kind: "Pod"}:                        {"kubelet", pod},
		{Group: "apps", Kind: "Deployment"}:  {controllers, deployment},
		{Group: "apps", Kind: "ReplicaSet"}:  {controllers, replicaSet},
		{Group: "apps", Kind: "StatefulSet"}: {controllers, statefulSet},
		{Group: "batch", Kind: "Job"}:        {controllers, job},
		{Kind: "Service"}:                    {"cloud-controller-manager", service},
		{Kind: "PersistentVolumeClaim"}:      {controllers, claim},
	}}
}

// Steps returns the states that can follow, in the order of the objects.
func (e *Environment) Steps(state *apiserver.State) []apiserver.Change {
	var steps []apiserver.Change
	for o := range state.Objects() {
		next, known := e.models[o.GroupKind()]
		if !known {
			continue
		}
		s := &stepper{server: e.server, state: state, object: o, manager: next.manager}
		s.resource, _ = e.server.Resource(o.GroupKind())
		fields := object.DecodeOrEmpty(o.JSON())
		s.spec, _ = fields["spec"].(map[string]any)
		s.status, _ = fields["status"].(map[string]any)
		next.steps(s)
		steps = append(steps, s.steps...)
	}
	return steps
}

// Package environment models what other programs than controllers of Setpoint do to objects: the scheduler and the
// kubelet, the controllers of Kubernetes, and those of kinds with conditions.
//
// A model is a function from a state to the states that can follow by one step. It leaves out what a controller
// cannot rely on, such as times, and makes no ReplicaSets and Pods for workloads: it counts them.
// test/explore compares each model with the real control plane.
package environment

import (
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options configure an Environment.
type Options struct {
	// Conditioned are kinds that a controller outside the exploration makes ready, by a condition.
	Conditioned []object.GroupKind
	// Ready is the type of that condition; "Ready" if empty.
	Ready string
}

// Environment has the models of a server. It is safe for concurrent use.
type Environment struct {
	server *apiserver.Server
	models map[object.GroupKind]model
}

// model adds the next steps of an object.
type model func(*stepper)

// New returns the environment of a server.
func New(server *apiserver.Server, options Options) *Environment {
	e := &Environment{server: server, models: map[object.GroupKind]model{
		{Kind: "Pod"}:                        pod,
		{Group: "apps", Kind: "Deployment"}:  deployment,
		{Group: "apps", Kind: "ReplicaSet"}:  replicaSet,
		{Group: "apps", Kind: "StatefulSet"}: statefulSet,
		{Group: "batch", Kind: "Job"}:        job,
		{Kind: "Service"}:                    service,
		{Kind: "PersistentVolumeClaim"}:      claim,
	}}
	ready := options.Ready
	if ready == "" {
		ready = "Ready"
	}
	for _, kind := range options.Conditioned {
		e.models[kind] = func(s *stepper) { conditioned(s, ready) }
	}
	return e
}

// Steps returns the states that can follow, in the order of the objects.
func (e *Environment) Steps(state *apiserver.State) []apiserver.Change {
	var steps []apiserver.Change
	for stored := range state.AllStored() {
		next, known := e.models[stored.GroupKind()]
		if !known {
			continue
		}
		s := &stepper{server: e.server, state: state, object: stored}
		if s.decode() {
			next(s)
		}
		steps = append(steps, s.steps...)
	}
	return steps
}

// Package v1alpha1 holds the kinds of the group metacontroller.k8s.io, for manifests written for
// Metacontroller: the same fields, defaults and names.
//
// The package has types and the markers from which deep copies and CRDs are generated, and no
// behaviour. The schema of a spec accepts everything that the published one accepts: the controller's
// conditions report what is contradictory or not supported by this release. Only the status is ours;
// Metacontroller's is empty. Every field of Metacontroller is here, even if it has no effect; new
// fields belong in the group setpoint.dev.
//
// +kubebuilder:object:generate=true
// +groupName=metacontroller.k8s.io
package v1alpha1

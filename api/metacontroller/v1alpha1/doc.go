// Package v1alpha1 holds the kinds of the group metacontroller.k8s.io, for manifests written for
// Metacontroller: the same fields, defaults and names.
//
// Here live types and the markers from which deep copies and CRDs are generated; no behaviour. The
// schema of a spec accepts whatever the published one accepts: what is contradictory or not done by
// this release is said in the conditions of the controller, not by refusing the object. Only the
// status is ours, where theirs is empty. A field nobody may want is still here when theirs has it; a
// field theirs lacks belongs in the group setpoint.dev.
//
// +kubebuilder:object:generate=true
// +groupName=metacontroller.k8s.io
package v1alpha1

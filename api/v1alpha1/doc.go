// Package v1alpha1 holds the Kubernetes kinds of the group setpoint.dev, and the status that every
// controller kind of either group reports.
//
// Here live types, their constants and the markers from which deep copies and CRDs are generated; no
// behaviour. The rooms that compile, run and report on controllers import it, and so do users who
// handle these objects in Go.
//
// A default is stated once as a constant for code that builds objects itself and once as a marker
// for the API server; a test in config/crd holds the two together.
//
// +kubebuilder:object:generate=true
// +groupName=setpoint.dev
package v1alpha1

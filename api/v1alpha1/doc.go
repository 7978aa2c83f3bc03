// Package v1alpha1 holds the Kubernetes kinds of the group setpoint.dev, and the status that every
// controller kind of either group reports.
//
// It contains types, constants, and the markers from which deep copies and CRDs are generated; no
// behaviour. The packages that compile, run and report on controllers import it, and so do users who
// use these objects in Go.
//
// A default is a constant for code that builds objects, and a marker for the API server; a test in
// config/crd compares the two.
//
// +kubebuilder:object:generate=true
// +groupName=setpoint.dev
package v1alpha1

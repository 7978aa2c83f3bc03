// Package v1 is the kind of the comparison's kubebuilder operator: what its author
// writes of it, the registration that kubebuilder scaffolds, and the copies that
// controller-gen makes.
//
// +kubebuilder:object:generate=true
// +groupName=operators.brennerm.github.io
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme makes the types known to a client.
func AddToScheme(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "operators.brennerm.github.io", Version: "v1"}
	scheme.AddKnownTypes(version, &ExchangeRate{}, &ExchangeRateList{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}

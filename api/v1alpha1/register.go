package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names under which the API server serves the kinds.
const (
	CompositeControllerKind     = "CompositeController"
	CompositeControllerResource = "compositecontrollers"

	DecoratorControllerKind     = "DecoratorController"
	DecoratorControllerResource = "decoratorcontrollers"

	HandlerControllerKind     = "HandlerController"
	HandlerControllerResource = "handlercontrollers"

	AdmissionControllerKind     = "AdmissionController"
	AdmissionControllerResource = "admissioncontrollers"
)

// GroupVersion is the API group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "setpoint.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package, so that typed clients can read and write them.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CompositeController{}, &CompositeControllerList{},
		&DecoratorController{}, &DecoratorControllerList{},
		&HandlerController{}, &HandlerControllerList{},
		&AdmissionController{}, &AdmissionControllerList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

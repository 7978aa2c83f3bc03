package v1alpha1

// Annotations and finalizers of controller objects.
const (
	// AnnotationIgnoreMetacontroller: "true" on a controller object of metacontroller.k8s.io runs it
	// although a Metacontroller runs in the cluster.
	AnnotationIgnoreMetacontroller = "setpoint.dev/ignore-metacontroller"

	// FinalizerReleaseParents: on a controller object until Setpoint has removed the controller's
	// finalizers from its objects.
	FinalizerReleaseParents = "setpoint.dev/release-parents"

	// LabelControllerUID: on a ControllerRevision with a version of the logic of a controller, the UID of that
	// controller.
	LabelControllerUID = "setpoint.dev/controller-uid"

	// LabelDevRun: the run of `setpoint dev --context` that has created an object. Other Setpoints ignore
	// controller objects with it.
	LabelDevRun = "setpoint.dev/dev-run"
)

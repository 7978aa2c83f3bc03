package v1alpha1

// Annotations for users to set on objects that a controller manages, or on controller objects.
const (
	// AnnotationPaused: "true" pauses all controllers for this object and its children. On a controller
	// object it pauses the controller.
	AnnotationPaused = "setpoint.dev/paused"

	// AnnotationReconcileAt: each new value requests a reconcile. On a controller object it requests one
	// of all objects. In the form "TIME by USER" it names the user in the reconcile history.
	AnnotationReconcileAt = "setpoint.dev/reconcile-at"

	// AnnotationAllowDeletions: confirms deletions that the deletion guard holds, of one object or, on a
	// controller object, of all. The condition DeletionsHeld and the event have the value, which fits
	// the deletions that are held now.
	AnnotationAllowDeletions = "setpoint.dev/allow-deletions"

	// AnnotationRolloutRetryAt: each new value on a controller object starts a rollout again that was rolled
	// back. `setpoint rollout resume` sets it.
	AnnotationRolloutRetryAt = "setpoint.dev/rollout-retry-at"

	// AnnotationFullObjects: "true" on a controller of metacontroller.k8s.io sends metadata.managedFields
	// and the status of the controller to its hooks. In setpoint.dev the field fullObjects does that.
	AnnotationFullObjects = "setpoint.dev/full-objects"
)

// Annotations, finalizers and labels of controller objects, and of objects that Setpoint creates.
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

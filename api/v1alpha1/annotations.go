package v1alpha1

// Annotations by which a user tells Setpoint what to do about one object. They go on the objects that
// a controller cares for, of whatever kind.
const (
	// AnnotationPaused, set to "true", has every controller leave the object and its children alone.
	AnnotationPaused = "setpoint.dev/paused"

	// AnnotationReconcileAt asks for a sync now, each time its value changes; a time is a good value.
	AnnotationReconcileAt = "setpoint.dev/reconcile-at"

	// AnnotationAllowDeletions confirms deletions that are held by the deletion guard: those of all objects
	// on a controller, those of one object on that object. Its value is the one that the condition
	// DeletionsHeld, or the event, names; it fits what is held now and nothing else.
	AnnotationAllowDeletions = "setpoint.dev/allow-deletions"

	// AnnotationFullObjects, set to "true" on a controller of metacontroller.k8s.io, has its hooks shown
	// metadata.managedFields of all objects, and the status of the controller. Those of setpoint.dev have
	// the field fullObjects.
	AnnotationFullObjects = "setpoint.dev/full-objects"
)

package v1alpha1

// What Setpoint reads and writes in the metadata of controller objects.
const (
	// AnnotationIgnoreMetacontroller, set to "true" on a controller object of metacontroller.k8s.io, runs
	// it although a Metacontroller runs in the same cluster: for one that is told to leave this object
	// alone.
	AnnotationIgnoreMetacontroller = "setpoint.dev/ignore-metacontroller"

	// FinalizerReleaseParents keeps a controller object with a finalize hook until the finalizers that
	// it put on its parents are removed. Without it they could never be deleted.
	FinalizerReleaseParents = "setpoint.dev/release-parents"
)

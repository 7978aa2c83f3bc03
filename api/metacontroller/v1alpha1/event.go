package v1alpha1

// Reasons of the events that Metacontroller emits; Setpoint emits them for controllers of
// metacontroller.k8s.io.
const (
	// EventStarting: on a controller that is starting.
	EventStarting = "Starting"
	// EventStarted: on a controller that has started.
	EventStarted = "Started"
	// EventStopping: on a controller that is stopping.
	EventStopping = "Stopping"
	// EventStopped: on a controller that has stopped.
	EventStopped = "Stopped"
	// EventCreateError: on a controller that Setpoint does not accept; the message has the reason.
	EventCreateError = "CreateError"
	// EventSyncError: on a parent whose sync failed, and on a controller whose parents have no
	// status subresource. The message has the reason.
	EventSyncError = "SyncError"
)

package v1alpha1

// Reasons of the events that Metacontroller emits; Setpoint emits them for controllers of
// metacontroller.k8s.io.
const (
	// EventStarting: on a controller that is starting. What to do: nothing.
	EventStarting = "Starting"
	// EventStarted: on a controller that has started. What to do: nothing.
	EventStarted = "Started"
	// EventStopping: on a controller that is stopping. What to do: nothing.
	EventStopping = "Stopping"
	// EventStopped: on a controller that has stopped. What to do: nothing.
	EventStopped = "Stopped"
	// EventCreateError: on a controller that Setpoint does not accept; the message has the reason. What to do: see
	// that reason on this page.
	EventCreateError = "CreateError"
	// EventSyncError: on a parent whose sync failed, and on a controller whose parents have no status subresource. The
	// message of the former has the reason. What to do: see that reason, or NoStatusSubresource, on this page.
	EventSyncError = "SyncError"
)

package v1alpha1

// Reasons of the events that Metacontroller emits. EventSyncError warns, at a parent, of a
// sync that failed, and at a controller of a parent kind without a status subresource; the
// others are at the controller.
const (
	EventStarting    = "Starting"
	EventStarted     = "Started"
	EventStopping    = "Stopping"
	EventStopped     = "Stopped"
	EventCreateError = "CreateError"
	EventSyncError   = "SyncError"
)

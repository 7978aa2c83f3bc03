package trace

// Attributes of spans. Those of objects are named as the collector's receivers of Kubernetes objects and events name them.
const (
	AttrNamespace  = "k8s.namespace.name"
	AttrAPIVersion = "k8s.object.api_version"
	AttrKind       = "k8s.object.kind"
	AttrName       = "k8s.object.name"
	AttrUID        = "k8s.object.uid"
	AttrResource   = "k8s.object.resource"
	AttrVersion    = "k8s.object.resource_version"

	AttrStatus    = "http.response.status_code"
	AttrURL       = "url.full"
	AttrErrorType = "error.type"

	AttrController = "setpoint.controller"
	// AttrCauses lists causes of a reconcile, and AttrMoreCauses counts those that are not in it. AttrCause is on links.
	AttrCauses     = "setpoint.causes"
	AttrMoreCauses = "setpoint.causes.more"
	AttrCause      = "setpoint.cause"
	AttrAttempt    = "setpoint.attempt"
	AttrWaited     = "setpoint.queue.duration"
	AttrOutcome    = "setpoint.outcome"
	AttrMessage    = "setpoint.message"
	AttrWebhook    = "setpoint.webhook"
	AttrReason     = "setpoint.reason"
	AttrOperation  = "setpoint.operation"
)

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Hooks holds the questions a controller asks.
type Hooks struct {
	// customize is asked which other objects to show to the other hooks.
	// +optional
	Customize *Hook `json:"customize,omitempty"`

	// sync is asked which children, and which status, a parent should have.
	// +optional
	Sync *Hook `json:"sync,omitempty"`

	// finalize is asked instead of sync once a parent is to be deleted or has left the controller.
	// +optional
	Finalize *Hook `json:"finalize,omitempty"`

	// preUpdateChild is accepted and never called, as in Metacontroller.
	// +optional
	PreUpdateChild *Hook `json:"preUpdateChild,omitempty"`

	// postUpdateChild is accepted and never called, as in Metacontroller.
	// +optional
	PostUpdateChild *Hook `json:"postUpdateChild,omitempty"`
}

// Hook says how one question is asked.
type Hook struct {
	// version is the form in which objects are sent. In v2 namespaced objects are always keyed
	// namespace/name; in v1 the key is the bare name when the parent is namespaced too.
	// +optional
	// +kubebuilder:default=v1
	Version HookVersion `json:"version,omitempty"`

	// webhook asks over HTTP. Without it the hook is off.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`
}

// HookVersion is a version of the form in which a hook is asked and answers.
//
// +kubebuilder:validation:Enum=v1;v2
type HookVersion string

// The hook versions.
const (
	HookV1 HookVersion = "v1"
	HookV2 HookVersion = "v2"

	// DefaultHookVersion is meant by an empty HookVersion.
	DefaultHookVersion = HookV1
)

// Webhook is an HTTP endpoint, given by its URL or as a path of a Service.
type Webhook struct {
	// url is where to POST. It takes precedence over service and path.
	// +optional
	URL *string `json:"url,omitempty"`

	// service is the Service to POST to, together with path.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// path is the path of the endpoint at service, such as /sync.
	// +optional
	Path *string `json:"path,omitempty"`

	// timeout is how long one exchange may take, as a duration such as 500ms or 1m30s. Absent, zero
	// and less mean 10s.
	// +optional
	// +kubebuilder:validation:Format=duration
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// etag lets the endpoint answer that its last answer still holds.
	// +optional
	ETag *ETag `json:"etag,omitempty"`

	// responseUnMarshallMode says what becomes of an answer with fields that are unknown or given
	// twice: strict refuses it, loose passes over them. Absent means loose for hooks of version v1
	// and strict for v2.
	// +optional
	ResponseUnMarshallMode ResponseUnMarshallMode `json:"responseUnMarshallMode,omitempty"`

	ConnectionSettings `json:",inline"`
}

// ResponseUnMarshallMode says what becomes of an answer with fields that are unknown or given twice.
//
// +kubebuilder:validation:Enum=loose;strict
type ResponseUnMarshallMode string

// The unmarshalling modes.
const (
	ResponseUnMarshallLoose  ResponseUnMarshallMode = "loose"
	ResponseUnMarshallStrict ResponseUnMarshallMode = "strict"
)

// ServiceReference names a Service of the cluster.
type ServiceReference struct {
	// name of the Service.
	// +required
	Name string `json:"name"`

	// namespace of the Service.
	// +required
	Namespace string `json:"namespace"`

	// port of the Service. Absent means 80.
	// +optional
	Port *int32 `json:"port,omitempty"`

	// protocol is http or https. Absent means http.
	// +optional
	Protocol *string `json:"protocol,omitempty"`
}

// ETag says how long answers are kept for an endpoint that may answer "not modified".
type ETag struct {
	// enabled sends If-None-Match with each question whose last answer is kept.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// cacheTimeoutSeconds is how long an answer is kept. Absent means an hour.
	// +optional
	CacheTimeoutSeconds *int32 `json:"cacheTimeoutSeconds,omitempty"`

	// cacheCleanupSeconds is how often answers past their time are dropped.
	// +optional
	CacheCleanupSeconds *int32 `json:"cacheCleanupSeconds,omitempty"`
}

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Hooks are the hooks of a CompositeController.
type Hooks struct {
	// customize selects the related objects that the other hooks receive.
	// +optional
	Customize *Hook `json:"customize,omitempty"`

	// sync returns the desired children and status of a parent.
	// +optional
	Sync *Hook `json:"sync,omitempty"`

	// finalize is called instead of sync when a parent is being deleted or no longer matches the
	// controller's selector.
	// +optional
	Finalize *Hook `json:"finalize,omitempty"`

	// preUpdateChild is accepted and never called, as in Metacontroller.
	// +optional
	PreUpdateChild *Hook `json:"preUpdateChild,omitempty"`

	// postUpdateChild is accepted and never called, as in Metacontroller.
	// +optional
	PostUpdateChild *Hook `json:"postUpdateChild,omitempty"`
}

// Hook configures how Setpoint calls one hook.
type Hook struct {
	// version is the version of the request and response format. In v2, keys of namespaced objects
	// are always namespace/name. In v1, the key is the name alone if the parent is namespaced too.
	// +optional
	// +kubebuilder:default=v1
	Version HookVersion `json:"version,omitempty"`

	// webhook is the HTTP endpoint to call. Without it the hook is off.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`
}

// HookVersion is a version of the request and response format of hooks.
//
// +kubebuilder:validation:Enum=v1;v2
type HookVersion string

// The hook versions.
const (
	HookV1 HookVersion = "v1"
	HookV2 HookVersion = "v2"

	// DefaultHookVersion applies if HookVersion is empty.
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

	// timeout limits one call, as a duration such as 500ms or 1m30s. If absent, zero or negative, it
	// is 10s.
	// +optional
	// +kubebuilder:validation:Format=duration
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// etag lets the endpoint return 304 Not Modified if its last response still applies.
	// +optional
	ETag *ETag `json:"etag,omitempty"`

	// responseUnMarshallMode controls how Setpoint handles unknown and duplicate fields in a
	// response: strict rejects the response, loose ignores the fields. If absent, it is loose for
	// hooks of version v1 and strict for v2.
	// +optional
	ResponseUnMarshallMode ResponseUnMarshallMode `json:"responseUnMarshallMode,omitempty"`

	ConnectionSettings `json:",inline"`
}

// ResponseUnMarshallMode controls how Setpoint handles unknown and duplicate fields in a response.
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

// ETag configures the cache of responses for an endpoint that may return 304 Not Modified.
type ETag struct {
	// enabled sends If-None-Match with each request whose last response is cached.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// cacheTimeoutSeconds is how long a response is cached. Absent means an hour.
	// +optional
	CacheTimeoutSeconds *int32 `json:"cacheTimeoutSeconds,omitempty"`

	// cacheCleanupSeconds is how often expired responses are removed.
	// +optional
	CacheCleanupSeconds *int32 `json:"cacheCleanupSeconds,omitempty"`
}

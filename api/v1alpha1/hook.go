package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hooks holds the questions a controller asks.
type Hooks struct {
	// sync is asked which children, and which status, a parent should have.
	// +required
	Sync Hook `json:"sync"`

	// finalize is asked instead of sync once a parent is to be deleted, or no longer matches the
	// selectors of the controller. The parent stays until it answers that it is finalized.
	// +optional
	Finalize *Hook `json:"finalize,omitempty"`

	// customize is asked which other objects to show to the other hooks. It is asked again when the
	// parent changes.
	// +optional
	Customize *Hook `json:"customize,omitempty"`
}

// Hook says how one question is asked.
type Hook struct {
	// version is the form in which objects are sent. In v2 namespaced objects are always keyed
	// namespace/name; in v1 the key is the bare name when the parent is namespaced too. Default v2.
	// (In metacontroller.k8s.io the default is v1.)
	// +optional
	// +kubebuilder:default=v2
	Version HookVersion `json:"version,omitempty"`

	// webhook asks over HTTP.
	// +required
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
	DefaultHookVersion = HookV2
)

// Webhook is an HTTP endpoint, given by its URL or as a path of a Service.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="set exactly one of url and service"
// +kubebuilder:validation:XValidation:rule="has(self.path) == has(self.service)",message="path goes with service: set both, or put the path into url"
// +kubebuilder:validation:XValidation:rule="!has(self.authorization) || !has(self.basicAuth)",message="set at most one of authorization and basicAuth"
type Webhook struct {
	// url is where to POST, such as https://hooks.example.com/sync.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="url is an absolute http or https URL"
	URL string `json:"url,omitempty"`

	// service is the Service to POST to, together with path.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// path is the path of the endpoint at service, such as /sync.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path starts with /"
	Path string `json:"path,omitempty"`

	// timeout is how long one exchange may take, from connecting to the last byte of the answer, as
	// a duration such as 500ms or 1m30s. Default 10s.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') && size(self) > 0 && duration(self) > duration('0s')",message="timeout is a duration of more than 0s, such as 500ms or 1m30s"
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// decoding says what becomes of an answer with fields that are unknown or given twice. Default
	// Strict, for both hook versions. (In metacontroller.k8s.io this is responseUnMarshallMode, and
	// loose for v1.)
	// +optional
	// +kubebuilder:default=Strict
	Decoding Decoding `json:"decoding,omitempty"`

	// etag lets the endpoint answer that its last answer still holds.
	// +optional
	ETag ETag `json:"etag,omitzero"`

	ConnectionSettings `json:",inline"`
}

// ETag says how answers are kept for an endpoint that may answer "not modified".
type ETag struct {
	// enabled sends If-None-Match with each question whose last answer is kept. An endpoint may then
	// answer 304 or 412 to say that the kept one still holds.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// cacheTimeoutSeconds is how long an answer is kept. 0 means an hour. (The
	// cacheCleanupSeconds of metacontroller.k8s.io is not needed: what is past its time is dropped.)
	// +optional
	// +kubebuilder:validation:Minimum=0
	CacheTimeoutSeconds int32 `json:"cacheTimeoutSeconds,omitempty"`
}

// ServiceReference names a Service of the cluster.
type ServiceReference struct {
	// name of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// namespace of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// port of the Service. Default is that of the protocol: 80 for http, 443 for https. (In
	// metacontroller.k8s.io the default is 80 for both.)
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// protocol is http or https. Default http.
	// +optional
	// +kubebuilder:default=http
	Protocol Protocol `json:"protocol,omitempty"`
}

// Protocol is what a Service speaks.
//
// +kubebuilder:validation:Enum=http;https
type Protocol string

// The protocols.
const (
	ProtocolHTTP  Protocol = "http"
	ProtocolHTTPS Protocol = "https"

	// DefaultProtocol is meant by an empty Protocol.
	DefaultProtocol = ProtocolHTTP
)

// Decoding says what becomes of a response with fields that are unknown or given twice: Strict refuses
// the response and changes nothing, Loose passes over them, and refuses a
// response that has an unknown field in place of the children of its controller.
//
// +kubebuilder:validation:Enum=Strict;Loose
type Decoding string

// The ways of decoding.
const (
	DecodingStrict Decoding = "Strict"
	DecodingLoose  Decoding = "Loose"

	// DefaultDecoding is meant by an empty Decoding.
	DefaultDecoding = DecodingStrict
)

// DefaultTimeout is meant by a Webhook.Timeout of zero.
const DefaultTimeout = 10 * time.Second

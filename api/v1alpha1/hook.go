package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hooks are the hooks of a controller.
type Hooks struct {
	// sync returns the desired children and status of a parent.
	// +required
	Sync Hook `json:"sync"`

	// finalize is called instead of sync when a parent is being deleted, or no longer matches the
	// selectors of the controller. The parent stays until a response says that it is finalized.
	// +optional
	Finalize *Hook `json:"finalize,omitempty"`

	// customize selects related objects to send to the other hooks. It is called again when the parent
	// changes.
	// +optional
	Customize *Hook `json:"customize,omitempty"`
}

// Hook is one hook of a controller.
type Hook struct {
	// version is the version of requests and responses. In v2 namespaced objects are always keyed
	// namespace/name; in v1 the key is the bare name when the parent is namespaced too. Default v2.
	// (In metacontroller.k8s.io the default is v1.)
	// +optional
	// +kubebuilder:default=v2
	Version HookVersion `json:"version,omitempty"`

	HookCall `json:",inline"`
}

// HookVersion is a version of requests and responses.
//
// +kubebuilder:validation:Enum=v1;v2
type HookVersion string

// The hook versions.
const (
	HookV1 HookVersion = "v1"
	HookV2 HookVersion = "v2"

	// DefaultHookVersion is the default of HookVersion.
	DefaultHookVersion = HookV2
)

// HookCall is how a hook is called. Requests and responses are the same JSON in all ways.
//
// +kubebuilder:validation:XValidation:rule="[has(self.webhook), has(self.inline), has(self.exec)].filter(given, given).size() == 1",message="exactly one of webhook, inline and exec is required"
type HookCall struct {
	// webhook is called over HTTP.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`

	// inline is code that Setpoint runs itself, in a process without network, files and credentials.
	// +optional
	Inline *InlineHook `json:"inline,omitempty"`

	// exec is a program beside Setpoint. It receives each request as one line on its standard input and
	// writes each response as one line. It runs under setpoint dev, and where setpoint run has
	// --exec-hooks.
	// +optional
	Exec *ExecHook `json:"exec,omitempty"`
}

// Webhook is an HTTP endpoint, given by its URL or as a path of a Service.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="exactly one of url and service is required"
// +kubebuilder:validation:XValidation:rule="has(self.path) == has(self.service)",message="path and service require each other; with url, put the path into the URL"
// +kubebuilder:validation:XValidation:rule="!has(self.authorization) || !has(self.basicAuth)",message="authorization and basicAuth are mutually exclusive"
type Webhook struct {
	// url is where to POST, such as https://hooks.example.com/sync.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="must be an absolute http or https URL"
	URL string `json:"url,omitempty"`

	// service is the Service to POST to, together with path.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// path is the path of the endpoint at service, such as /sync.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must start with /"
	Path string `json:"path,omitempty"`

	// timeout limits one call, from connecting to the last byte of the response, as a duration such as
	// 500ms or 1m30s. Default 10s.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') && size(self) > 0 && duration(self) > duration('0s')",message="must be a duration greater than zero, such as 500ms or 1m30s"
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// decoding decides on responses with unknown or duplicate fields. Default Strict, for both hook
	// versions. (In metacontroller.k8s.io this is responseUnMarshallMode, and loose for v1.)
	// +optional
	// +kubebuilder:default=Strict
	Decoding Decoding `json:"decoding,omitempty"`

	// etag lets the endpoint respond that its last response is still valid.
	// +optional
	ETag ETag `json:"etag,omitzero"`

	ConnectionSettings `json:",inline"`
}

// ETag configures the cache of responses for an endpoint that supports ETags.
type ETag struct {
	// enabled sends If-None-Match with each request that has a cached response. The endpoint may then
	// return 304 or 412 to reuse the cached response.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// cacheTimeoutSeconds is how long a response is cached. 0 means an hour. (cacheCleanupSeconds of
	// metacontroller.k8s.io is not needed: expired responses are dropped.)
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

// Protocol is the protocol of a Service.
//
// +kubebuilder:validation:Enum=http;https
type Protocol string

// The protocols.
const (
	ProtocolHTTP  Protocol = "http"
	ProtocolHTTPS Protocol = "https"

	// DefaultProtocol is the default of Protocol.
	DefaultProtocol = ProtocolHTTP
)

// Decoding decides on responses with unknown or duplicate fields: Strict refuses the response, and Setpoint
// changes nothing; Loose ignores these fields, and refuses a response that has an unknown field in place of
// the children of its controller.
//
// +kubebuilder:validation:Enum=Strict;Loose
type Decoding string

// The modes of decoding.
const (
	DecodingStrict Decoding = "Strict"
	DecodingLoose  Decoding = "Loose"

	// DefaultDecoding is the default of Decoding.
	DefaultDecoding = DecodingStrict
)

// InlineHook is code that Setpoint runs, and the function to call. The same request has the same response:
// clock and random numbers come from the request.
//
// +kubebuilder:validation:XValidation:rule="has(self.source) != has(self.sourceFrom)",message="exactly one of source and sourceFrom is required"
// +kubebuilder:validation:XValidation:rule="!has(self.modules) || has(self.source)",message="modules requires source: with sourceFrom.configMapKeyRef, the other keys of the ConfigMap are the modules"
// +kubebuilder:validation:XValidation:rule="has(self.language) != (has(self.sourceFrom) && has(self.sourceFrom.hook))",message="language is required, and excluded by sourceFrom.hook: there it is that of the other hook"
type InlineHook struct {
	// language of the source. It is required, except with sourceFrom.hook.
	// +optional
	Language ScriptLanguage `json:"language,omitempty"`

	// source is the code. In JavaScript it is a module that exports its functions.
	// +optional
	Source ScriptSource `json:"source,omitempty"`

	// sourceFrom names where the code is.
	// +optional
	SourceFrom *SourceReference `json:"sourceFrom,omitempty"`

	// modules are further files by name, such as pod.js. The source imports them by that name: "./pod.js"
	// in JavaScript, "pod.star" in Starlark.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Modules map[string]ScriptSource `json:"modules,omitempty"`

	// function is the name of the function to call. Default is that of the hook (sync, finalize,
	// customize); handle for handlers, review for admission.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_$][A-Za-z0-9_$]*$')",message="must be the name of a function"
	Function string `json:"function,omitempty"`

	// timeout limits one call, as a duration such as 500ms. Default 10s, at most 1m.
	// +optional
	// +kubebuilder:default="10s"
	Timeout PositiveDuration `json:"timeout,omitzero"`

	// decoding decides on responses with unknown or duplicate fields. Default Strict.
	// +optional
	// +kubebuilder:default=Strict
	Decoding Decoding `json:"decoding,omitempty"`
}

// ScriptLanguage is the language of an inline hook.
//
// +kubebuilder:validation:Enum=JavaScript;Starlark
type ScriptLanguage string

// The languages of inline hooks.
const (
	JavaScript ScriptLanguage = "JavaScript"
	Starlark   ScriptLanguage = "Starlark"
)

// ScriptSource is the text of one file.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=524288
type ScriptSource string

// MaxScriptSource is the maximum size of a ScriptSource, and of a file in a ConfigMap.
const MaxScriptSource = 512 << 10

// SourceReference names where the code of an inline hook is.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMapKeyRef) != has(self.hook)",message="exactly one of configMapKeyRef and hook is required"
type SourceReference struct {
	// configMapKeyRef names the key of a ConfigMap. Its other keys are the modules. Setpoint watches the
	// ConfigMap as the ServiceAccount of the controller, and uses a new source moments after it is stored, if
	// it compiles.
	// +optional
	ConfigMapKeyRef *SourceKeyReference `json:"configMapKeyRef,omitempty"`

	// hook is the name of another hook, handler or webhook of this controller that has source or
	// configMapKeyRef. Both functions are in the same source.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Hook string `json:"hook,omitempty"`
}

// SourceKeyReference names a key of a ConfigMap.
type SourceKeyReference struct {
	ObjectReference `json:",inline"`

	// key in the data of the ConfigMap. It is the name of the file.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// ExecHook is a program that reads requests and writes responses, each as one line of JSON. Setpoint keeps it
// running and starts it anew when it ends. What it writes to its standard error goes to the log.
type ExecHook struct {
	// command is the program and its arguments. The path is relative to the directory of setpoint dev, or
	// to --exec-hooks of setpoint run, and must not lead out of it.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self[0] != ''",message="must begin with the path of a program"
	Command []string `json:"command"`

	// timeout limits one call, as a duration such as 500ms. Default 10s.
	// +optional
	// +kubebuilder:default="10s"
	Timeout PositiveDuration `json:"timeout,omitzero"`

	// decoding decides on responses with unknown or duplicate fields. Default Strict.
	// +optional
	// +kubebuilder:default=Strict
	Decoding Decoding `json:"decoding,omitempty"`
}

// DefaultTimeout is the default of the timeout of a call.
const DefaultTimeout = 10 * time.Second

// MaxInlineTimeout is the greatest timeout of a call of an inline hook.
const MaxInlineTimeout = time.Minute

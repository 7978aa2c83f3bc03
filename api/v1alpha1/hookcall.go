package v1alpha1

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

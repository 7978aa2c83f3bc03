package failure

// Fault classifies an error by type. It is derived before types are lost, so that user interfaces can suggest a remedy.
type Fault struct {
	Kind FaultKind `json:"what"`
	// Code is the HTTP status of a hook, Body the beginning of the response body.
	Code int    `json:"code,omitempty"`
	Body string `json:"said,omitempty"`
	// Path is the invalid field of a response or object.
	Path string `json:"path,omitempty"`
	// Place is where the code of a hook failed, such as "spec.hooks.sync.inline.source:12:5", and Line that line.
	Place string `json:"place,omitempty"`
	Line  string `json:"line,omitempty"`
}

// FaultKind classifies faults.
type FaultKind string

// Faults of hooks and of the connection to them.
const (
	HookUnknownHost     FaultKind = "hook-unknown-host"
	HookUnreachable     FaultKind = "hook-absent"
	HookTLS             FaultKind = "hook-tls"
	HookTimeout         FaultKind = "hook-timeout"
	HookDisconnected    FaultKind = "hook-broken-off"
	HookStatus          FaultKind = "hook-status"
	HookInvalidResponse FaultKind = "hook-response"
	HookCredentials     FaultKind = "hook-credentials"
	HookFailed          FaultKind = "hook"
	HandlerFailed       FaultKind = "handler"
)

// Faults reported by the API server, and others.
const (
	Forbidden            FaultKind = "forbidden"
	Invalid              FaultKind = "invalid"
	FieldHeld            FaultKind = "field-held"
	Conflict             FaultKind = "conflict"
	NameTaken            FaultKind = "name-taken"
	Terminating          FaultKind = "namespace-terminating"
	Rejected             FaultKind = "refused"
	APIServerUnavailable FaultKind = "api-server"
	TimedOut             FaultKind = "timeout"
	Panicked             FaultKind = "panic"
)

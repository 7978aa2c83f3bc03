package inspect

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Advice tells the user what to do about a fault.
type Advice struct {
	// Title names the problem and Help says what to do. Both are empty for unknown faults.
	Title, Help string
	// LocalHelp replaces Help if the command line made the request itself; "" if Help fits.
	LocalHelp string
	// Hook reports that the hook, or the connection to it, caused the fault.
	Hook bool
	// Waits reports that a retry cannot help before something else changes, which Setpoint notices.
	Waits bool
}

// AdviceFor returns the advice for a fault, which may be nil.
func AdviceFor(f *Fault) Advice {
	if f == nil {
		return Advice{}
	}
	place := f.Place
	if f.Line != "" {
		place += " `" + f.Line + "`"
	}
	for _, known := range adviceRules {
		if known.what == f.Kind && f.Code >= known.from && (known.to == 0 || f.Code <= known.to) {
			if f.Place != "" {
				known.Help = "Look at " + place + ". " + known.Help
			}
			if f.Code != 0 {
				known.Title += " (" + strings.TrimSpace(strconv.Itoa(f.Code)+" "+http.StatusText(f.Code)) + ")"
			}
			known.Hook = strings.HasPrefix(string(f.Kind), "hook")
			return known.Advice
		}
	}
	return Advice{}
}

// adviceRule is the advice for a kind of fault, and for a range of status codes if to is set.
type adviceRule struct {
	what     failure.FaultKind
	from, to int
	Advice
}

// adviceRules are all rules, the most specific first.
var adviceRules = []adviceRule{
	{what: failure.HookInvalidResponse, Advice: Advice{Title: "Invalid hook response",
		Help:      "Correct the response at the given field. Nothing of it was applied.",
		LocalHelp: "correct the hook's response; nothing of an invalid response is applied"}},
	{what: failure.HookStatus, from: 300, to: 399, Advice: Advice{Title: "The hook redirects",
		Help: "Set the URL of the controller to the new address."}},
	{what: failure.HookStatus, from: 404, to: 404, Advice: Advice{Title: "The hook has no such path",
		Help: "The server responds, but not at this path: compare the controller's URL with the paths of the hook."}},
	{what: failure.HookStatus, from: 401, to: 401, Advice: wrongCredentials},
	{what: failure.HookStatus, from: 403, to: 403, Advice: wrongCredentials},
	{what: failure.HookStatus, from: 429, to: 429, Advice: Advice{Title: "The hook is rate limiting",
		Help: "Setpoint retries after the time that the hook asked for. If this repeats, the hook needs more capacity."}},
	{what: failure.HookStatus, from: 400, to: 499, Advice: Advice{Title: "Hook returned an error",
		Help: "The error quotes the response; the reconcile history has the request."}},
	{what: failure.HookStatus, from: 502, to: 504, Advice: Advice{Title: "No hook behind the proxy or Service",
		Help: "Check whether the hook's pods are running and ready."}},
	{what: failure.HookStatus, Advice: Advice{Title: "The hook failed",
		Help: "See the log of the hook. The reconcile history has the request, to reproduce it."}},
	{what: failure.HookUnknownHost, Advice: Advice{Title: "Unknown hook host",
		Help: "Check the host in the controller's URL, and whether its Service exists.",
		LocalHelp: "the hook is behind a Service, which is not reachable from outside the cluster; use " +
			"`kubectl port-forward`, or run the hook on this machine, and set --hook HOST:PORT"}},
	{what: failure.HookUnreachable, Advice: Advice{Title: "Connection to the hook refused",
		Help:      "Check whether the hook is running, and the host and port in the controller's URL.",
		LocalHelp: "start the hook, or set another address with --hook HOST:PORT"}},
	{what: failure.HookTimeout, Advice: Advice{Title: "Hook timeout",
		Help: "The hook is slow or hangs: see its log, or raise the timeout in the controller."}},
	{what: failure.HookTLS, Advice: Advice{Title: "The hook's certificate is not trusted",
		Help: "Check the caBundle of the controller's webhook, the host name in the certificate, and whether the hook serves HTTPS."}},
	{what: failure.HookCredentials, Advice: Advice{Title: "Missing hook credentials",
		Help: "Check the Secret or file with the credentials of the controller's webhook."}},
	{what: failure.HookDisconnected, Advice: Advice{Title: "The hook closed the connection",
		Help: "The connection ended before the response was complete: the hook may have crashed or restarted. See its log."}},
	{what: failure.HookFailed, Advice: Advice{Title: "The hook failed",
		Help: "The reconcile history has the request."}},
	{what: failure.HandlerFailed, Advice: Advice{Title: "The handler failed",
		Help: "See the log of the handler's process. The reconcile history has the request."}},
	{what: failure.Forbidden, Advice: Advice{Title: "Forbidden by the API server",
		Help: "If the error names a missing permission, grant it to the ServiceAccount that the error names: that of the " +
			"controller, or of this process. If it names a ServiceAccount that does not exist, create it. If it names a quota or " +
			"policy, raise the quota or comply with the policy.",
		LocalHelp: "a dry run needs the same permissions as the write itself"}},
	{what: failure.Invalid, Advice: Advice{Title: "The desired object is invalid",
		Help: "A field that the controller sets violates the schema of the kind. Correct the field in the hook's response, or in " +
			"the spec that it is computed from."}},
	{what: failure.FieldHeld, Advice: Advice{Title: "Another field manager holds a field",
		Help: "A field that the controller sets excludes one that is held by the field manager that the error names. " +
			"Run the command of the error, or let that manager give the field up."}},
	{what: failure.Conflict, Advice: Advice{Title: "Conflict: object changed concurrently",
		Help:      "Setpoint retries with the current version. If this repeats, the reconcile history names the other field manager.",
		LocalHelp: "the object changed concurrently; run the command again"}},
	{what: failure.NameTaken, Advice: Advice{Title: "The name is taken",
		Help: "Another object has the name of a child. Give the child a name of its own, such as one that begins with the name of " +
			"the parent. Setpoint goes on by itself when the other object is gone.", Waits: true}},
	{what: failure.Terminating, Advice: Advice{Title: "The namespace is being deleted",
		Help: "No objects can be created in it until it is gone."}},
	{what: failure.Rejected, Advice: Advice{Title: "Rejected by the API server",
		Help: "See the error. If it names an admission webhook, change what that one refuses, or ask its owner."}},
	{what: failure.APIServerUnavailable, Advice: Advice{Title: "API server unreachable",
		Help:      "Setpoint retries. If this repeats, check the API server and the network between it and this process.",
		LocalHelp: "check the kubeconfig and whether the API server is running"}},
	{what: failure.TimedOut, Advice: Advice{Title: "Timeout",
		Help:      "The callee is slow or hangs: see its log, or raise the timeout.",
		LocalHelp: "raise --timeout"}},
	{what: failure.Panicked, Advice: Advice{Title: "Internal error",
		Help: "The log of the process has the stack trace. Report it to the authors of the program."}},
}

var wrongCredentials = Advice{Title: "The hook rejects Setpoint's credentials",
	Help: "Compare the credentials of the controller's webhook with those that the hook expects."}

package inspect

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Each kind of fault that an account can have is said in words.
func TestAdviceForEveryFault(t *testing.T) {
	for _, what := range []failure.FaultKind{
		failure.HookUnknownHost, failure.HookUnreachable, failure.HookTLS, failure.HookTimeout, failure.HookDisconnected, failure.HookStatus, failure.HookInvalidResponse,
		failure.HookCredentials, failure.HookFailed, failure.HandlerFailed, failure.Forbidden, failure.Invalid, failure.Conflict,
		failure.NameTaken, failure.Terminating, failure.Rejected, failure.APIServerUnavailable, failure.TimedOut, failure.Panicked,
	} {
		a := AdviceFor(&Fault{Kind: what})
		if a.Title == "" || !strings.HasSuffix(a.Help, ".") || strings.Contains(a.Help, "--") {
			t.Errorf("%s: %+v", what, a)
		}
	}
	for code, want := range map[int]string{
		302: "The hook redirects (302 Found)", 404: "The hook has no such path (404 Not Found)",
		401: "The hook rejects Setpoint's credentials (401 Unauthorized)", 418: "Hook returned an error (418 I'm a teapot)",
		429: "The hook is rate limiting (429 Too Many Requests)", 503: "No hook behind the proxy or Service (503 Service Unavailable)",
		500: "The hook failed (500 Internal Server Error)", 599: "The hook failed (599)", 204: "The hook failed (204 No Content)",
	} {
		if a := AdviceFor(&Fault{Kind: failure.HookStatus, Code: code}); a.Title != want || !a.Hook {
			t.Errorf("%d: %+v", code, a)
		}
	}
	failed := &Fault{Kind: failure.HookFailed, Place: "sync.js:3:5", Line: "parent.status.phase"}
	if a := AdviceFor(failed); a.Help != "Look at sync.js:3:5 `parent.status.phase`. The reconcile history has the request." {
		t.Error(a.Help)
	}
	if a := AdviceFor(nil); a != (Advice{}) {
		t.Errorf("nothing: %+v", a)
	}
}

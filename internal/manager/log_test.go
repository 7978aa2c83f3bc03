package manager_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// Fault D5: a manifest in the log can be copied unchanged.
func TestTextHandlerKeepsLines(t *testing.T) {
	var out bytes.Buffer
	o := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	log := slog.New(manager.NewTextHandler(&out, o)).With("a", 1)
	log.Warn("refused", "message", "may not list shops\nkind: Role\nrules: []\n", "reason", "Forbidden")
	log.WithGroup("g").Info("plain", "b", "c")
	const want = `level=WARN msg=refused a=1 message="may not list shops" reason=Forbidden
kind: Role
rules: []
level=INFO msg=plain a=1 g.b=c
`
	if out.String() != want {
		t.Errorf("got:\n%s", &out)
	}
}

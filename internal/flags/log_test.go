package flags_test

import (
	"bytes"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/flags"
)

// Fault D5: a manifest in the log can be copied unchanged.
func TestTextHandlerKeepsLines(t *testing.T) {
	var out bytes.Buffer
	log := flags.NewLog(&out, flags.Brief, "info").With("a", 1)
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

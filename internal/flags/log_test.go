package flags_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint/internal/flags"
)

// Levels between the four are written as the lower one, and the level changes for all loggers.
func TestLevels(t *testing.T) {
	var out bytes.Buffer
	log := flags.NewLog(&out, "json", "info").With("a", 1)
	changeable, ok := log.WithGroup("g").Handler().(interface{ LogLevel() *slog.LevelVar })
	if !ok {
		t.Fatal("the level cannot be changed")
	}
	log.Debug("hidden")
	changeable.LogLevel().Set(-8)
	for level, want := range map[slog.Level]string{-8: "DEBUG", -4: "DEBUG", -3: "DEBUG", 0: "INFO", 3: "INFO", 4: "WARN", 8: "ERROR", 12: "ERROR"} {
		out.Reset()
		log.Log(t.Context(), level, "shown")
		if !strings.Contains(out.String(), `"level":"`+want+`"`) {
			t.Errorf("level %d: %s", level, &out)
		}
	}
}

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

// client-go calls it an error that a request was canceled, as all are when Setpoint stops.
func TestCanceledRequestsAreNoErrors(t *testing.T) {
	var out bytes.Buffer
	log := flags.NewLog(&out, flags.Brief, "info")
	library := klog.FromContext(t.Context()).WithValues("request", "GET")
	library.Error(fmt.Errorf("reading: %w", context.Canceled), "body")
	library.Error(context.DeadlineExceeded, "late")
	log.Error("ours", "err", context.Canceled)
	const want = `level=ERROR msg=late library=client-go request=GET err="context deadline exceeded"
level=ERROR msg=ours err="context canceled"
`
	if out.String() != want {
		t.Errorf("got:\n%s", &out)
	}
}

package scripttest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// Call loads sources, of which the first line of each after that of the entry is "-- name --", calls sync and
// returns the log, and the response or the error, with its stack and its limit.
func Call(t *testing.T, engine script.Engine, files script.Files, sources, request string) string {
	t.Helper()
	files.Sources = map[string]string{}
	name := files.Entry
	for i, part := range strings.Split(sources, "-- ") {
		if i > 0 {
			name, part, _ = strings.Cut(part, " --\n")
		}
		files.Sources[name] = part
	}
	var log strings.Builder
	files.Log = func(line string) { log.WriteString("log: " + line + "\n") }
	p, err := engine.Load(files)
	if err != nil {
		return log.String() + "load: " + describe(err)
	}
	response, err := p.Call(&script.Call{
		Function: "sync", Request: []byte(request), Time: time.UnixMilli(1700000000123), Seed: 1,
		Log: files.Log,
	})
	if err != nil {
		return log.String() + describe(err)
	}
	return log.String() + string(response)
}

func describe(err error) string {
	var e *script.Error
	if !errors.As(err, &e) {
		return "not a script.Error: " + err.Error()
	}
	said := e.Error()
	if len(e.Stack) > 1 {
		said += " [" + strings.Join(e.Stack[:min(3, len(e.Stack))], ", ") + "]"
	}
	if e.Limit != "" {
		said += " limit: " + e.Limit
	}
	return said
}

// Package webhook is the hook that Setpoint asks in the bench: a Go program on
// loopback, run as a process of its own, that answers sync requests and counts
// them.
package webhook

import (
	"context"
	"net/http"
	"os"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
)

// Path is where sync requests are answered.
const Path = "/sync"

// Run serves the hook and its probe until ctx is done. It prints the address of
// both as one line of JSON.
func Run(ctx context.Context) error {
	recorder := &probe.Recorder{}
	recorder.SetReady()
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, &hook{recorder: recorder})
	return probe.Serve(ctx, recorder, mux, os.Stdout)
}

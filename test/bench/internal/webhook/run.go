// Package webhook is the hook that Setpoint calls in the bench: a Go program on
// loopback, run as a process of its own, that serves sync requests and counts them.
package webhook

import (
	"context"
	"net/http"
	"os"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
)

// Path is the path of sync requests.
const Path = "/sync"

// CustomizePath is the path of customize requests.
const CustomizePath = "/customize"

// Run serves the hook and its probe at an address until ctx is done. It prints
// the address of both as one line of JSON.
func Run(ctx context.Context, address string) error {
	recorder := &probe.Recorder{}
	recorder.SetReady()
	mux := http.NewServeMux()
	hook := &hook{recorder: recorder}
	mux.HandleFunc("POST "+Path, hook.serveSync)
	mux.HandleFunc("POST "+CustomizePath, hook.serveCustomize)
	return probe.Serve(ctx, recorder, mux, address, os.Stdout)
}

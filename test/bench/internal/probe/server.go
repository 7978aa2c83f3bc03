package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Address is the line a process prints on its standard output once it listens.
type Address struct {
	// URL is the base of the probe, such as "http://127.0.0.1:40123".
	URL string `json:"probe"`
}

// Stats is what has been recorded so far.
type Stats struct {
	Calls int64 `json:"calls"`
	// Last is when the last call came in; zero before the first.
	Last time.Time `json:"last"`
}

type entered struct {
	At time.Time `json:"at"`
}

// Serve listens on a free loopback port, announces it on out, and serves the
// recorder and whatever mux already holds until ctx is done.
func Serve(ctx context.Context, r *Recorder, mux *http.ServeMux, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	mux.HandleFunc("GET /readyz", r.serveReady)
	mux.HandleFunc("GET /stats", r.serveStats)
	mux.HandleFunc("POST /arm", r.serveArm)
	mux.HandleFunc("GET /entered", r.serveEntered)
	address := Address{URL: "http://" + listener.Addr().String()}
	if err := json.NewEncoder(out).Encode(address); err != nil {
		return fmt.Errorf("announce the address: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on loopback: %w", err)
	}
	return nil
}

func (r *Recorder) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !r.ready.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	}
}

func (r *Recorder) serveStats(w http.ResponseWriter, _ *http.Request) {
	stats := Stats{Calls: r.calls.Load()}
	if last := r.last.Load(); last != 0 {
		stats.Last = time.Unix(0, last)
	}
	reply(w, stats)
}

func (r *Recorder) serveArm(_ http.ResponseWriter, req *http.Request) {
	r.arm(req.URL.Query().Get("value"))
}

// serveEntered answers as soon as the armed value has come in.
func (r *Recorder) serveEntered(w http.ResponseWriter, req *http.Request) {
	armed := r.armed.Load()
	if armed == nil || armed.value != req.URL.Query().Get("value") {
		http.Error(w, "not armed for that value", http.StatusConflict)
		return
	}
	select {
	case <-armed.fell:
		reply(w, entered{At: armed.at})
	case <-req.Context().Done():
	}
}

// reply cannot tell anybody when the reader has gone.
func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

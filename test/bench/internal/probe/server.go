package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
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
	// Customized counts the questions for related objects.
	Customized int64 `json:"customized"`
	// First and Last are when calls came in; zero before the first.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

type entered struct {
	At time.Time `json:"at"`
}

// AnyAddress is a free port on loopback.
const AnyAddress = "127.0.0.1:0"

// Serve listens on an address, announces it on out, and serves the recorder and
// whatever mux already holds until ctx is done.
func Serve(ctx context.Context, r *Recorder, mux *http.ServeMux, address string, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	mux.HandleFunc("GET /readyz", r.serveReady)
	mux.HandleFunc("GET /stats", r.serveStats)
	mux.HandleFunc("POST /arm", r.serveArm)
	mux.HandleFunc("GET /entered", r.serveEntered)
	mux.HandleFunc("GET /body", r.serveBody)
	announced := Address{URL: "http://" + listener.Addr().String()}
	if err := json.NewEncoder(out).Encode(announced); err != nil {
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
		return
	}
}

func (r *Recorder) serveStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, Stats{
		Calls:      r.calls.Load(),
		Customized: r.customized.Load(),
		First:      timeOf(r.first.Load()),
		Last:       timeOf(r.last.Load()),
	})
}

func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

func (r *Recorder) serveBody(w http.ResponseWriter, _ *http.Request) {
	body := r.body.Load()
	if body == nil {
		http.Error(w, "no call has been kept", http.StatusNotFound)
		return
	}
	_, _ = w.Write(*body)
}

func (r *Recorder) serveArm(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	parents, err := strconv.Atoi(query.Get("parents"))
	if err != nil || parents < 1 {
		http.Error(w, "parents must be a number above zero", http.StatusBadRequest)
		return
	}
	r.arm(query.Get("value"), parents)
}

// serveEntered responds as soon as the armed value has come in often enough.
func (r *Recorder) serveEntered(w http.ResponseWriter, req *http.Request) {
	armed := r.armed.Load()
	if armed == nil || armed.value != req.URL.Query().Get("value") {
		http.Error(w, "not armed for that value", http.StatusConflict)
		return
	}
	select {
	case <-armed.done:
		writeJSON(w, entered{At: armed.at})
	case <-req.Context().Done():
	}
}

// writeJSON cannot tell anybody when the reader has gone.
func writeJSON(w http.ResponseWriter, response any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response)
}

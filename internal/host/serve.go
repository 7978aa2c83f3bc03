package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// listen opens the address for health and metrics, nil if there is none.
func (h *Host) listen(ctx context.Context) (net.Listener, error) {
	if h.options.Address == "" {
		return nil, nil //nolint:nilnil // No address was asked for: that is no error.
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", h.options.Address)
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	h.log.Info("serving health and metrics", "address", listener.Addr().String())
	return listener, nil
}

// serve answers until the context ends.
func (h *Host) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health and metrics: %w", err)
	}
	return nil
}

// ServeHTTP answers for health, readiness and metrics.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.unready()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.metrics.registry, promhttp.HandlerOpts{}))
	if h.options.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	mux.ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, problem error) {
	if problem != nil {
		http.Error(w, problem.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// unready says why the host is not ready: a cache that is not synced.
func (h *Host) unready() error {
	select {
	case <-h.ready:
	default:
		return errors.New("starting")
	}
	return h.fleet.unsynced()
}

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

// door is one address and what is answered there.
type door struct {
	net.Listener
	handler http.Handler
}

// listen opens the addresses there are to serve.
func (h *Host) listen(ctx context.Context) ([]door, error) {
	var doors []door
	for _, each := range []struct {
		what, flag, address string
		handler             http.Handler
	}{
		{"health and metrics", "--address", h.options.Address, h},
		{"health", "--health-address", h.options.HealthAddress, h.health()},
	} {
		if each.address == "" {
			continue
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", each.address)
		if err != nil {
			closeAll(doors)
			return nil, fmt.Errorf("serve %s (%s): %w", each.what, each.flag, err)
		}
		//nolint:sloglint // One message for each door, of which there are two.
		h.log.Info("serving "+each.what, "address", listener.Addr().String())
		doors = append(doors, door{listener, each.handler})
	}
	window, err := h.openWindow(ctx)
	doors = append(doors, window...)
	if err != nil {
		closeAll(doors)
		return nil, err
	}
	return doors, nil
}

func closeAll(doors []door) {
	for _, open := range doors {
		_ = open.Close()
	}
}

// finishing is how long what is being written for somebody may take when the context has
// ended.
const finishing = 3 * time.Second

// serve answers until the context ends. What only reads ends with it, such as what a page
// is told for as long as it is open; what writes may finish.
func (h *Host) serve(ctx context.Context, at door) error {
	server := newServer(readingUntil(ctx, at.handler))
	finished := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishing)
		defer cancel()
		_ = server.Shutdown(late) // It fails where something takes longer, which is ended then.
		_ = server.Close()
	})
	err := server.Serve(at)
	if !stop() {
		<-finished
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve at %s: %w", at.Addr(), err)
	}
	return nil
}

// readingUntil ends requests that only read when a context does.
func readingUntil(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			reading, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			r = r.WithContext(reading)
		}
		next.ServeHTTP(w, r)
	})
}

// newServer bounds what somebody who only keeps connections can take of the process.
// How long a body may take is up to who reads it: some answers last for as long as a page
// is open.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}

// health answers whether the host lives, and whether it is ready.
func (h *Host) health() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.inFlight.stuck()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.unready()) })
	return mux
}

// ServeHTTP answers for health, readiness and metrics.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := h.health()
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

// unready says why the host is not ready: a cache that is not synced, a lease that
// it is not allowed to take, or a controller of its own that cannot run.
func (h *Host) unready() error {
	if h.lock != nil && !h.office.leads() && h.lock.trouble() != nil {
		return h.lock.trouble()
	}
	select {
	case <-h.ready:
	default:
		if h.lacking.Load() && !h.office.leads() {
			return nil
		}
		return errors.New("starting")
	}
	if err := h.lost.err(h.recreateOption()); err != nil {
		return err
	}
	if err := h.fleet.unsynced(); err != nil {
		return err
	}
	return h.fleet.ownTrouble()
}

package manager

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

// HTTPEndpoint is an open address and its handler.
type HTTPEndpoint struct {
	net.Listener

	Handler http.Handler
}

// listen opens the configured addresses.
func (m *Manager) listen(ctx context.Context) ([]HTTPEndpoint, error) {
	var endpoints []HTTPEndpoint
	for _, each := range []struct {
		what, flag, address string
		handler             http.Handler
	}{
		{"health and metrics", "--address", m.options.Address, m},
		{"health", "--health-address", m.options.HealthAddress, m.health()},
	} {
		if each.address == "" {
			continue
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", each.address)
		if err != nil {
			closeAll(endpoints)
			return nil, fmt.Errorf("serve %s (%s): %w", each.what, each.flag, err)
		}
		//nolint:sloglint // One message per endpoint.
		m.log.Info("serving "+each.what, "address", listener.Addr().String())
		endpoints = append(endpoints, HTTPEndpoint{listener, each.handler})
	}
	dashboard, err := m.openDashboard(ctx)
	if err != nil {
		closeAll(endpoints)
		return nil, fmt.Errorf("serve the dashboard: %w", err)
	}
	return append(endpoints, dashboard...), nil
}

func closeAll(endpoints []HTTPEndpoint) {
	for _, open := range endpoints {
		_ = open.Close()
	}
}

// shutdownGrace is how long writes may take when the context has ended.
const shutdownGrace = 3 * time.Second

// serve serves until the context ends. Then reads, such as open event streams, are canceled
// and writes may finish.
func (m *Manager) serve(ctx context.Context, at HTTPEndpoint) error {
	server := newServer(cancelReads(ctx, at.Handler))
	finished := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		_ = server.Shutdown(late) // On a timeout, Close ends the rest.
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

// cancelReads cancels requests that only read when a context ends.
func cancelReads(ctx context.Context, next http.Handler) http.Handler {
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

// newServer limits what idle connections can use. Reading a body has no timeout, since event
// streams stay open.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}

// health serves /healthz and /readyz.
func (m *Manager) health() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, m.inFlight.checkStuck()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, m.checkReady()) })
	return mux
}

// ServeHTTP serves health, readiness and metrics.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := m.health()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.metrics.registry, promhttp.HandlerOpts{}))
	if m.options.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	mux.ServeHTTP(w, r)
}

func writeHealth(w http.ResponseWriter, problem error) {
	if problem != nil {
		http.Error(w, problem.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// checkReady returns why the manager is not ready: caches that are not synced, a Lease that
// it may not acquire, or a controller that cannot run.
func (m *Manager) checkReady() error {
	if err := m.leader.Problem(); err != nil {
		return err
	}
	select {
	case <-m.ready:
	default:
		if m.awaitingCRDs.Load() && !m.leader.Leads() {
			return nil
		}
		return errors.New("starting")
	}
	if err := m.deletedCRDs.err(m.recreateFlag()); err != nil {
		return err
	}
	if err := m.controllers.checkSynced(); err != nil {
		return err
	}
	return m.controllers.goControllerError()
}

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

// httpEndpoint is one address and what is answered there.
type httpEndpoint struct {
	net.Listener
	handler http.Handler
}

// listen opens the addresses there are to serve.
func (m *Manager) listen(ctx context.Context) ([]httpEndpoint, error) {
	var doors []httpEndpoint
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
			closeAll(doors)
			return nil, fmt.Errorf("serve %s (%s): %w", each.what, each.flag, err)
		}
		//nolint:sloglint // One message for each door, of which there are two.
		m.log.Info("serving "+each.what, "address", listener.Addr().String())
		doors = append(doors, httpEndpoint{listener, each.handler})
	}
	dashboardServer, err := m.startDashboard(ctx)
	doors = append(doors, dashboardServer...)
	if err != nil {
		closeAll(doors)
		return nil, err
	}
	return doors, nil
}

func closeAll(doors []httpEndpoint) {
	for _, open := range doors {
		_ = open.Close()
	}
}

// shutdownGrace is how long what is being written for somebody may take when the context has
// ended.
const shutdownGrace = 3 * time.Second

// serve answers until the context ends. What only reads ends with it, such as what a page
// is told for as long as it is open; what writes may finish.
func (m *Manager) serve(ctx context.Context, at httpEndpoint) error {
	server := newServer(cancelReads(ctx, at.handler))
	finished := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
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

// cancelReads ends requests that only read when a context does.
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
func (m *Manager) health() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, m.inFlight.checkStuck()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, m.checkReady()) })
	return mux
}

// ServeHTTP answers for health, readiness and metrics.
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

// checkReady says why the host is not ready: a cache that is not synced, a lease that
// it is not allowed to take, or a controller of its own that cannot run.
func (m *Manager) checkReady() error {
	if m.leaseLock != nil && !m.leadership.leads() && m.leaseLock.problem() != nil {
		return m.leaseLock.problem()
	}
	select {
	case <-m.ready:
	default:
		if m.awaitingCRDs.Load() && !m.leadership.leads() {
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

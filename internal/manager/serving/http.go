// Package serving is what a process serves over HTTP: health, metrics and profiles, the inspect
// endpoint, and admission webhooks.
//
// It does not know controllers: its callers say what is healthy and which webhooks there are.
package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Endpoint is an open address and its handler.
type Endpoint struct {
	net.Listener

	Handler http.Handler
}

// Options configure the endpoints of health and metrics.
type Options struct {
	// Address serves health and metrics, HealthAddress health only; "" disables either.
	Address, HealthAddress string
	// Profiling serves profiles at Address.
	Profiling bool
	Metrics   prometheus.Gatherer
	// Healthy returns why the process is unhealthy, or else what to respond with besides ok.
	Healthy func() (body []byte, err error)
	// HealthPath is another path of /healthz; "" for none.
	HealthPath string
	// Unready returns why the process is not ready; nil for none.
	Unready func() error
	Log     *slog.Logger
}

// Open opens the configured addresses.
func Open(ctx context.Context, o Options) ([]Endpoint, error) {
	var endpoints []Endpoint
	for _, each := range []struct {
		what, flag, address string
		handler             http.Handler
	}{
		{"health and metrics", "--address", o.Address, o.Handler()},
		{"health", "--health-address", o.HealthAddress, o.health()},
	} {
		if each.address == "" {
			continue
		}
		listener, err := listen(ctx, each.address)
		if err != nil {
			CloseAll(endpoints)
			return nil, fmt.Errorf("serve %s (%s): %w", each.what, each.flag, err)
		}
		//nolint:sloglint // One message per endpoint.
		o.Log.Info("serving "+each.what, "address", listener.Addr().String())
		endpoints = append(endpoints, Endpoint{listener, each.handler})
	}
	return endpoints, nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

// CloseAll closes endpoints that are not served.
func CloseAll(endpoints []Endpoint) {
	for _, open := range endpoints {
		_ = open.Close()
	}
}

// health serves /healthz and /readyz.
func (o *Options) health() *http.ServeMux {
	checks := map[string]func() ([]byte, error){
		"/healthz": o.Healthy,
		"/readyz":  func() ([]byte, error) { return nil, o.Unready() },
	}
	if o.HealthPath != "" {
		checks[o.HealthPath] = o.Healthy
	}
	mux := http.NewServeMux()
	for path, check := range checks {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			body, err := check()
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			if len(body) == 0 {
				body = []byte("ok\n")
			}
			_, _ = w.Write(body) // The client is gone.
		})
	}
	return mux
}

// Handler serves health, readiness, metrics and profiles.
func (o *Options) Handler() http.Handler {
	mux := o.health()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	if o.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// shutdownGrace is how long writes may take when the context has ended.
const shutdownGrace = 3 * time.Second

// Serve serves until the context ends. Then reads, such as open event streams, are canceled and writes may finish.
func (at Endpoint) Serve(ctx context.Context) error {
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

// newServer limits what idle connections can use. Reading a body has no timeout, since event streams stay open.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}

// defaultMaxFiles is the limit of a process without one, as far as it is useful.
const defaultMaxFiles = 64 << 10

// EnoughOpenFiles is the limit of open files from which on it limits no connections.
const EnoughOpenFiles = 4 * 512

// maxReviewConnections limits the connections of API servers: half of the files are for
// hooks, and the rest must leave some for health, metrics and the API server.
func maxReviewConnections(files int) int { return max(4, min(EnoughOpenFiles, files)/4) }

// MaxOpenFiles returns the limit of open files, and so of connections.
func MaxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultMaxFiles
	}
	return int(min(limit.Cur, defaultMaxFiles))
}

// Package server serves the reviews of API servers: it decodes an AdmissionReview, calls
// the hook of the webhook, and encodes its response. It limits what callers can use of the
// process. The manager runs one Server, in every replica.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Options configure a Server. Only Certificate is required.
type Options struct {
	Observer admission.Observer
	Log      *slog.Logger
	// Tracer is nil without traces.
	Tracer *trace.Tracer
	// Certificate returns the certificate for each connection.
	Certificate func() (*tls.Certificate, error)
	// ClientCAs returns the CAs of client certificates for each connection, which are
	// then required; nil requires none.
	ClientCAs func() (*x509.CertPool, error)
	// MaxBody is the maximum size of a review in bytes, 8 MiB by default. An object may
	// have about 1.5 MB, and larger ones are reviewed before the API server refuses them:
	// an old and a new one of 3 MB fit.
	MaxBody int64
	// BodyTimeout is how long a review may take to arrive, 5s by default.
	BodyTimeout time.Duration
	// MaxReviews is how many reviews of one program may be in its hook at once, 128 by
	// default. More of them wait.
	MaxReviews int
	// MaxConnections is the maximum number of connections, 512 by default.
	MaxConnections int
	// PathKeys returns the keys of paths; nil means paths without tokens.
	PathKeys func() admission.PathKeys
	// LameDuck is how long the server continues during shutdown, because API servers
	// learn of it later.
	LameDuck time.Duration
	// Drain is how long reviews in flight may then take, 30s by default.
	Drain time.Duration
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Limits on connections. No review takes longer than 30s, which is the most that a
// webhook's configuration may say.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 5 * time.Minute
)

// Server serves API servers for a set of programs. It is safe for concurrent use.
type Server struct {
	options Options
	// routes are by path.
	routes atomic.Pointer[map[string]*route]
	// inFlight counts the reviews that are with a hook.
	inFlight atomic.Int64

	mu sync.Mutex
	// turns are those of the programs, by name.
	turns map[string]turns
}

// route is the target of a path. Webhook is nil for a probe.
type route struct {
	program *admission.Program
	webhook *admission.Webhook
	turns   turns
	// failing reports that the last review had no response.
	failing atomic.Bool
}

// New returns a server without programs.
func New(o Options) *Server {
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 5*time.Second)
	o.MaxReviews = cmp.Or(o.MaxReviews, 128)
	o.MaxConnections = cmp.Or(o.MaxConnections, 512)
	if o.PathKeys == nil {
		o.PathKeys = func() admission.PathKeys { return admission.PathKeys{} }
	}
	o.Drain = cmp.Or(o.Drain, 30*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{options: o}
	s.Set(nil)
	return s
}

// turns has one entry for each review of a program that is with its hook.
type turns chan struct{}

func (t turns) enter(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return newHTTPError(http.StatusServiceUnavailable, "all %d concurrent reviews are busy: %w", cap(t), context.Cause(ctx))
	}
}

func (t turns) leave() { <-t }

// Set replaces the programs. Reviews in flight finish with the previous ones.
func (s *Server) Set(programs []*admission.Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	routes, all := map[string]*route{}, map[string]turns{}
	for _, program := range programs {
		of := s.turns[program.Name]
		if of == nil {
			of = make(turns, s.options.MaxReviews)
		}
		all[program.Name] = of
		routes[program.ProbePath()] = &route{program: program}
		for i := range program.Webhooks {
			webhook := &program.Webhooks[i]
			routes[program.AdmitPath(webhook.Name)] = &route{program: program, webhook: webhook, turns: of}
		}
	}
	s.turns = all
	s.routes.Store(&routes)
}

// Serve serves TLS at the listener until ctx ends, for the LameDuck time longer, and
// until reviews in flight have finished.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := s.http()
	ended := make(chan error, 1)
	open := &connections{most: s.options.MaxConnections}
	go func() { ended <- server.ServeTLS(&bounded{listener, open}, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve webhooks at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	lame := time.NewTimer(s.options.LameDuck)
	defer lame.Stop()
	select {
	case err := <-ended:
		return fmt.Errorf("serve webhooks at %s: %w", listener.Addr(), err)
	case <-lame.C:
	}
	return s.shutdown(context.WithoutCancel(ctx), server)
}

// shutdown waits for reviews in flight.
func (s *Server) shutdown(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Drain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // Only what is cut off would complain.
		return fmt.Errorf("stop the webhook server with %d reviews in flight: %w", s.inFlight.Load(), err)
	}
	return nil
}

func (s *Server) http() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ConnContext:       withConnection,
		// Usually a port scan.
		ErrorLog:  slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
		TLSConfig: s.tls(),
	}
}

// tls presents the current certificate, and requires a client certificate if its CAs are
// configured.
func (s *Server) tls() *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}, // As the API server speaks with webhooks: one request at a time on a connection.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.options.Certificate()
		},
	}
	if s.options.ClientCAs == nil {
		return config
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := s.options.ClientCAs()
		if err != nil {
			return nil, err
		}
		required := config.Clone()
		required.GetConfigForClient = nil
		required.ClientAuth, required.ClientCAs = tls.RequireAndVerifyClientCert, pool
		return required, nil
	}
	return config
}

// httpError is an error with an HTTP status.
type httpError struct {
	code int
	err  error
}

func (r *httpError) Error() string { return r.err.Error() }
func (r *httpError) Unwrap() error { return r.err }

func newHTTPError(code int, format string, args ...any) error {
	return &httpError{code, fmt.Errorf(format, args...)}
}

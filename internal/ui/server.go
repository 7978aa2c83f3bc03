package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Options say what a Server shows. Sources is needed.
type Options struct {
	// Sources are the processes that are shown. It is called for each page, and
	// returns at once.
	Sources func(context.Context) []inspect.Source
	// Version is Setpoint's.
	Version string
	// Log is slog.Default if nil.
	Log *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Server answers browsers.
type Server struct {
	options Options
	log     *slog.Logger
	now     func() time.Time
	pages   pages
	assets  assets
	handler http.Handler
}

// New makes a Server. What it needs of the API server it asks for when somebody does.
func New(o Options) (*Server, error) {
	if o.Sources == nil {
		return nil, errors.New("the window needs sources to show")
	}
	s := &Server{options: o, log: cmp.Or(o.Log, slog.Default()), now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	if s.pages, err = parsePages(s.functions()); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	s.handler = s.mux()
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	for name, value := range securityHeaders {
		header.Set(name, value)
	}
	s.handler.ServeHTTP(w, r)
}

// securityHeaders go with every answer. A page runs no script but our own files, has
// no style but them, and is in no frame; private as it is, nobody keeps it.
var securityHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":     "nosniff",
	"Referrer-Policy":            "same-origin",
	"Cross-Origin-Opener-Policy": "same-origin",
	"Cache-Control":              "no-store",
}

package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// Options say what a Server shows. Sources and Cluster are needed.
type Options struct {
	// Sources are the processes that are shown. It is called for each page, and
	// returns at once, the same Source for a process from one time to the next.
	Sources func(context.Context) []inspect.Source
	// Cluster is what the visitors' requests are made to.
	Cluster *asuser.Cluster
	// Access says who visitors are.
	Access access.Options
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
	gate    *access.Gate
	probe   *probe
	// patience is how long processes are waited for.
	patience *inspect.Patience
	sealer   *sealer
	streams  turns
	plans    turns
	// drafts are those that are sent, and atWork has a place for each that is worked on.
	drafts  turns
	atWork  chan struct{}
	paces   paces
	kept    keptWhys
	pages   pages
	assets  assets
	handler http.Handler
}

// New makes a Server. What it needs of the API server it asks for when somebody does.
func New(o Options) (*Server, error) {
	if o.Sources == nil || o.Cluster == nil {
		return nil, errors.New("the window needs sources to show, and a cluster")
	}
	o.Access.Ended = o.Cluster.Forget
	s := &Server{options: o, log: cmp.Or(o.Log, slog.Default()), now: o.Now, gate: access.New(o.Access, o.Cluster.Verify)}
	s.streams.most, s.plans.most, s.plans.inAll = maxStreams, maxPlans, maxAllPlans
	s.drafts.most, s.atWork = maxDrafts, make(chan struct{}, maxDraftsAtWork)
	if s.now == nil {
		s.now = time.Now
	}
	s.patience = inspect.NewPatience(sourceTime)
	s.probe, s.sealer = &probe{cluster: o.Cluster, now: s.now}, newSealer()
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	if s.pages, err = parsePages(s.functions()); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	s.handler = s.gate.Protect(s.mux())
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The end of this time ends the request too: one without a body may take longer.
	if r.Body != nil && r.Body != http.NoBody {
		_ = readUntil(w, time.Now().Add(bodyLimit)) // It fails on a connection that is gone.
	}
	s.handler.ServeHTTP(w, r)
}

// bodyLimit is how long the body of a request may take to arrive.
const bodyLimit = 30 * time.Second

// readUntil says by when a body has to have been read; the zero Time for whenever.
func readUntil(w http.ResponseWriter, end time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(end)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

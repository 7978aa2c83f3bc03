package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Options say what a Server shows. Sources and Cluster are needed.
type Options struct {
	// Sources are the processes that are shown. It is called for each page, and
	// returns at once, the same Source for a process from one time to the next.
	Sources func(context.Context) []model.Source
	// Cluster is what the visitors' requests are made to.
	Cluster *userclient.Cluster
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
	options       Options
	log           *slog.Logger
	now           func() time.Time
	authenticator *access.Authenticator
	probe         *apiProbe
	// patience is how long processes are waited for.
	patience *model.Timeouts
	digester *secretDigester
	streams  limiter
	plans    limiter
	// drafts are those that are sent, and draftSlots has a place for each that is worked on.
	drafts      limiter
	draftSlots  chan struct{}
	throttle    refreshThrottle
	changeCache changeCache
	pages       pages
	assets      assets
	handler     http.Handler
}

// New makes a Server. What it needs of the API server it asks for when somebody does.
func New(o Options) (*Server, error) {
	if o.Sources == nil || o.Cluster == nil {
		return nil, errors.New("dashboard: Sources and Cluster are required")
	}
	o.Access.OnSessionEnd = o.Cluster.Drop
	s := &Server{options: o, log: cmp.Or(o.Log, slog.Default()), now: o.Now, authenticator: access.New(o.Access, o.Cluster.Verify)}
	s.streams.perUser, s.plans.perUser, s.plans.total = maxStreams, maxPlans, maxTotalPlans
	s.drafts.perUser, s.draftSlots = maxDrafts, make(chan struct{}, maxActiveDrafts)
	if s.now == nil {
		s.now = time.Now
	}
	s.patience = model.NewTimeouts(sourceTimeout)
	s.probe, s.digester = &apiProbe{cluster: o.Cluster, now: s.now}, newSecretDigester()
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	if s.pages, err = parsePages(s.templateFuncs()); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	s.handler = s.authenticator.Protect(s.mux())
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The end of this time ends the request too: one without a body may take longer.
	if r.Body != nil && r.Body != http.NoBody {
		_ = setReadDeadline(w, time.Now().Add(bodyTimeout)) // It fails on a connection that is gone.
	}
	s.handler.ServeHTTP(w, r)
}

// bodyTimeout is how long the body of a request may take to arrive.
const bodyTimeout = 30 * time.Second

// setReadDeadline says by when a body has to have been read; the zero Time for whenever.
func setReadDeadline(w http.ResponseWriter, end time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(end)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Options configure a Server. Sources and Cluster are required.
type Options struct {
	// Sources returns the processes to show. It is called for each page, must not block, and
	// returns the same Source for the same process each time.
	Sources func(context.Context) []inspect.Source
	// Cluster makes requests as users.
	Cluster *userclient.Cluster
	// Access configures authentication.
	Access access.Options
	// Exits returns the processes whose supervisor knows that they ended; nil without one.
	Exits func() []Exit
	// Programs returns the programs that the supervisor runs; nil without one.
	Programs func() []Program
	// Version is the version of Setpoint.
	Version string
	// Log is slog.Default if nil.
	Log *slog.Logger
	// Now is time.Now if nil.
	Now func() time.Time
}

// Server serves the dashboard.
type Server struct {
	options       Options
	log           *slog.Logger
	now           func() time.Time
	authenticator *access.Authenticator
	probe         *apiProbe
	// timeouts limits how long to wait for processes.
	timeouts *inspect.Timeouts
	// memory has what processes said last.
	memory   *processMemory
	digester *secretDigester
	streams  limiter
	plans    limiter
	// drafts limits the forms per user, draftSlots those that are processed.
	drafts     limiter
	draftSlots chan struct{}
	// changeCache has the object changes of runs as a user may see them.
	changeCache *cache.LRUExpireCache
	pages       pages
	assets      assets
	handler     http.Handler
}

// New returns a Server. It makes no request yet.
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
	s.memory = &processMemory{exits: o.Exits, now: s.now}
	s.timeouts, s.changeCache = inspect.NewTimeouts(sourceTimeout), cache.NewLRUExpireCache(maxCachedChanges)
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

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The deadline also ends requests without a body, which may take longer.
	if r.Body != nil && r.Body != http.NoBody {
		_ = setReadDeadline(w, time.Now().Add(bodyTimeout)) // It fails on closed connections.
	}
	s.handler.ServeHTTP(w, r)
}

// bodyTimeout is how long a request body may take to arrive.
const bodyTimeout = 30 * time.Second

// setReadDeadline sets the read deadline of the connection; the zero Time removes it.
func setReadDeadline(w http.ResponseWriter, end time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(end)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

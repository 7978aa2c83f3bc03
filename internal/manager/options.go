package manager

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// programName is what Setpoint calls itself.
const programName = "setpoint"

// Options configure a Host. Config alone is needed.
type Options struct {
	// Config says how to reach the cluster.
	Config *rest.Config
	// ClientQPS and ClientBurst bound the requests to the API server: so many a
	// second on average, so many at once. Without ClientQPS there is no bound:
	// the server has priority and fairness. A zero ClientBurst is twice the QPS.
	ClientQPS   float32
	ClientBurst int
	// Selector is a label selector for controller objects, such as "team=web":
	// only those that match are run. "" runs all.
	Selector string
	// SkipCRDs leaves our CRDs as they are; somebody else installs them.
	SkipCRDs bool
	// GoControllers are the controllers of a Go program. With any, this Host runs them
	// alone: it neither installs our CRDs nor looks at controller objects.
	GoControllers []GoController
	// CRDs are CustomResourceDefinitions as YAML or JSON, of which each
	// text may hold several. They are created or upgraded, and waited for, before
	// anything runs. An upgrade that could break objects that are stored, or those
	// who use them, is refused unless AllowBreakingCRDs allows it.
	CRDs              [][]byte
	AllowBreakingCRDs bool
	// RecreateCRDs creates a CRD again that is deleted while the Host runs. Without,
	// it stays deleted until the next start: readiness and an event say so.
	RecreateCRDs bool
	// Namespace is where Setpoint itself runs: the revisions of cluster-scoped
	// parents and the lease of the leader live there. "default" if empty.
	Namespace string
	// Admission says how the API server comes to this Setpoint before it stores
	// objects.
	Admission AdmissionOptions
	// LeaderElection says which of several Setpoints works. The zero value
	// elects nobody: this one does.
	LeaderElection LeaderElection
	// ProcessLease has Hosts without leader election notice each other by a Lease, and say so, where
	// they handle the same objects: those of the Selector, or of a Go program's Confined,
	// the namespaces that a run is limited to.
	ProcessLease    bool
	WatchNamespaces []string
	// Workers is how many parents of one controller are worked on at once;
	// 32 if zero.
	Workers int
	// HookLimits bound the responses of hooks; the zero value has defaults.
	HookLimits webhook.Limits
	// Resync asks the hooks about each parent at least this often, also for
	// controllers that do not ask for it. Zero leaves it to them.
	Resync time.Duration
	// ApplyStrategy is how the controllers of metacontroller.k8s.io lay what is
	// desired over what is there: "Merge", which is meant by "" too, or
	// "ServerSide". Those of setpoint.dev say it themselves.
	ApplyStrategy string
	// FieldManager is whose fields those are where ApplyStrategy is ServerSide:
	// "metacontroller" if empty.
	FieldManager string
	// NoDeletionGuard has the controllers of metacontroller.k8s.io delete whatever their
	// hooks leave out. Those of setpoint.dev say it themselves.
	NoDeletionGuard bool
	// ShutdownTimeout is how long Run waits for what is under way when its context has
	// ended: 10s if zero. Underway, if set, names what of that the program has a hand
	// in, such as "daemon watch of ConfigMap shop/a".
	ShutdownTimeout time.Duration
	UnfinishedTasks func() []string
	// EventsQPS and EventsBurst bound the Events about one object: so many a
	// second on average, so many at once. 1/20 and 25 if zero.
	EventsQPS   float32
	EventsBurst int
	// Address is where health and metrics are served, such as ":8080"; ""
	// serves none.
	Address string
	// HealthAddress is one more address that serves health alone; "" for none.
	HealthAddress string
	// InspectAddress is where other processes of this machine may read what this one
	// knows (inspect/wire): an address of loopback; "" for nowhere. InspectAuto is
	// whatever suits the place.
	InspectAddress string
	// InspectDir is where it publishes that address, with the token that clients must
	// show; "" for neither: then the token is in a Secret (reach/token).
	InspectDir string
	// Dashboard says where the window is, and DevDashboard is one for development.
	Dashboard    Dashboard
	DevDashboard DevDashboard
	// Profiling adds Go's profiles to Address, under /debug/pprof.
	Profiling bool
	// Dial is how hooks are reached; nil for the network. Routed says for which addresses it
	// leads elsewhere, past the proxies of the environment; nil for all.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Routed func(address string) bool
	// History says how much is kept of what controllers did, for Inspect.
	History History
	// Plan, if set, says what a controller would do about an object now: the room that
	// plans is above this one.
	Plan func(ctx context.Context, m *Manager, controller string, ref model.Ref) (model.Plan, error)
	// Name is that of the program whose controllers these are, for events and the user
	// agent; Setpoint's own if empty.
	Name string
	// Version is said in the user agent; "dev" if empty.
	Version string
	// Log is slog.Default if nil.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, "default")
	o.LeaderElection = o.LeaderElection.withDefaults(o)
	o.Workers = cmp.Or(o.Workers, 32)
	o.Admission.Address = cmp.Or(o.Admission.Address, "127.0.0.1:0")
	o.ApplyStrategy = cmp.Or(o.ApplyStrategy, string(plan.Merge))
	o.FieldManager = cmp.Or(o.FieldManager, "metacontroller")
	// The engine repeats an unchanged failure every 30 seconds or so; with a
	// lower rate it would become silent.
	o.EventsQPS = cmp.Or(o.EventsQPS, 1.0/20)
	o.EventsBurst = cmp.Or(o.EventsBurst, 25)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 10*time.Second)
	if o.UnfinishedTasks == nil {
		o.UnfinishedTasks = func() []string { return nil }
	}
	o.Version = cmp.Or(o.Version, "dev")
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// userAgent is what the API server is told of who asks.
func (o Options) userAgent() string {
	if o.Name == "" {
		return programName + "/" + o.Version
	}
	return o.Name + "/" + o.Version + " " + programName
}

// check refuses what could only fail later, and less clearly.
func (o Options) check() error {
	if err := checkGoControllers(o.GoControllers); err != nil {
		return err
	}
	if err := cmp.Or(o.Dashboard.check(), o.Admission.check()); err != nil {
		return err
	}
	if _, err := labels.Parse(o.Selector); err != nil {
		return fmt.Errorf("the selector of controllers: %w", err)
	}
	if err := checkInspectAddress(o.InspectAddress); err != nil {
		return err
	}
	switch plan.ApplyStrategy(o.ApplyStrategy) {
	case plan.Merge, plan.ServerSide:
		return o.LeaderElection.check()
	}
	return fmt.Errorf("the apply strategy is %q; it may be %s or %s", o.ApplyStrategy, plan.Merge, plan.ServerSide)
}

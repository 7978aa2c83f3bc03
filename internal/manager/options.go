package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/request"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// programName is the name in field managers, events and the user agent.
const programName = "setpoint"

// Options of a Manager. Only Config is required.
type Options struct {
	// Settings default to the Namespace "default", 32 Workers, ApplyStrategy Merge and the FieldManager "metacontroller".
	// Namespace also has the leader Lease. A Go program limits its controllers to Namespaces itself.
	compile.Settings

	// Config is the client configuration of the cluster.
	Config *rest.Config
	// ClientQPS and ClientBurst limit requests to the API server per second on average, and at once. There is no limit
	// without ClientQPS, since the API server has priority and fairness. ClientBurst defaults to twice the QPS.
	ClientQPS   float32
	ClientBurst int
	// Selector is a label selector of controller objects, such as "team=web"; "" selects all.
	Selector string
	// DevRun is the run of `setpoint dev --context` whose controller objects are run; "" runs those of no such run.
	DevRun string
	// SkipCRDs does not install Setpoint's CRDs.
	SkipCRDs bool
	// GoControllers are the controllers of a Go program. With any, the Manager does not
	// install Setpoint's CRDs and ignores controller objects.
	GoControllers []controllers.GoController
	// CRDs are CustomResourceDefinitions in YAML or JSON, one or more documents each. They are installed before controllers
	// start, or upgraded. An upgrade that could break stored objects or clients is refused unless AllowBreakingCRDs is set.
	CRDs              [][]byte
	AllowBreakingCRDs bool
	// Admission configures the webhook server.
	Admission serving.AdmissionOptions
	// LeaderElection is disabled by default.
	LeaderElection leader.Election
	// ProcessLease detects other processes that handle the same objects without leader election, by a Lease, and logs a
	// warning. Objects are the same for one Selector and one set of Namespaces.
	ProcessLease bool
	// NoCodeReviews leaves out the webhook that refuses code that does not compile.
	NoCodeReviews bool
	// HookProcesses returns the figures of the processes of these hooks, for metrics; may be nil.
	HookProcesses serving.HookProcesses
	// ShutdownTimeout is how long Run waits for work to stop when its context ends; 10s if zero. UnfinishedTasks, if
	// set, names tasks of the program that still run, such as "daemon watch of ConfigMap shop/a".
	ShutdownTimeout time.Duration
	UnfinishedTasks func() []string
	// EventsQPS and EventsBurst limit the events on one object per second on average, and at once; 1/20 and 25 if zero.
	EventsQPS   float32
	EventsBurst int
	// Address serves health and metrics, such as ":8080"; "" disables it.
	Address string
	// HealthAddress serves health only; "" disables it.
	HealthAddress string
	// Health checks another process that belongs to this one, and returns what it says of
	// itself. Without an error that is the body of /healthz and of HealthPath; an error makes
	// this process unhealthy and not ready. It must be fast. Both may be unset.
	Health     func() (body []byte, err error)
	HealthPath string
	// Unready is a further check of /readyz: why the program is not ready. It may be unset.
	Unready func() error
	// Metrics are the metrics to extend and serve; nil for new ones.
	Metrics *serving.Metrics
	// InspectAddress serves the state of this process to others on this machine, on
	// loopback (see inspect/wire); "" disables it. InspectAuto selects an address.
	InspectAddress string
	// InspectDir is the directory to publish that address in, with the token that clients
	// need; if empty, the token is in a Secret (see inspect/locate/token).
	InspectDir string
	// Dashboard is the dashboard; nil for none.
	Dashboard Dashboard
	// Profiling serves Go's profiles at Address, under /debug/pprof.
	Profiling bool
	// History limits the history that Inspect returns.
	History inspect.HistoryOptions
	// Recording writes all hook calls to a file.
	Recording Recording
	// Traces says where spans go; nil for none.
	Traces *trace.Config
	// Plan, if set, computes the plan of an object. The package that plans is in a layer above.
	Plan func(ctx context.Context, m *Manager, controller string, ref object.Ref, edited json.RawMessage) (inspect.Plan, error)
	// Name is the name of the program in events and the user agent; Setpoint's if empty.
	Name string
	// Version is the version in the user agent; "dev" if empty.
	Version string
	// Log is slog.Default if nil.
	Log *slog.Logger
}

// Recording configures the continuous recording of hook calls.
type Recording struct {
	// File is the path of the file; "" for none.
	File string
	// MaxBytes bounds the file and the one before it together; 256 MiB if zero.
	MaxBytes int
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, "default")
	o.LeaderElection = o.LeaderElection.WithDefaults(o.Namespace, o.Selector)
	o.Workers = cmp.Or(o.Workers, 32)
	o.Admission.Address = cmp.Or(o.Admission.Address, "127.0.0.1:0")
	o.ApplyStrategy = cmp.Or(o.ApplyStrategy, plan.Merge)
	o.FieldManager = cmp.Or(o.FieldManager, "metacontroller")
	// An unchanged failure is reported again about every 30 seconds; a lower rate would drop these events.
	o.EventsQPS = cmp.Or(o.EventsQPS, 1.0/20)
	o.EventsBurst = cmp.Or(o.EventsBurst, 25)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 10*time.Second)
	o.Recording.MaxBytes = cmp.Or(o.Recording.MaxBytes, recording.DefaultFileSize)
	if o.UnfinishedTasks == nil {
		o.UnfinishedTasks = func() []string { return nil }
	}
	o.Version = cmp.Or(o.Version, "dev")
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// controllerSelector returns the label selector of the controller objects to run.
func (o *Options) controllerSelector() string {
	if o.DevRun != "" {
		return setpoint.LabelDevRun + "=" + o.DevRun
	}
	return strings.TrimPrefix(o.Selector+",!"+setpoint.LabelDevRun, ",")
}

// reach returns how API servers reach the webhook server.
func (o *Options) reach() serving.Reach {
	return serving.Reach{
		AdmissionOptions: o.Admission, Namespace: o.Namespace,
		LeaderLease: types.NamespacedName{Namespace: o.LeaderElection.Namespace, Name: o.LeaderElection.Name},
	}
}

// inspectEndpoint returns the configuration of the inspect endpoint.
func (o *Options) inspectEndpoint() serving.Inspect {
	return serving.Inspect{Address: o.InspectAddress, Dir: o.InspectDir, Namespace: o.Namespace, Log: o.Log}
}

// permissionsProcess returns what a process with these options needs permissions for.
func (o *Options) permissionsProcess() *rbac.Process {
	reach, inspect := o.reach(), o.inspectEndpoint()
	return &rbac.Process{
		Namespace: o.Namespace, PodNamespace: reach.PodNamespace(), CertificateSecret: reach.CertificateSecret(),
		ProvidedCertificates: reach.ProvidesCertificates(),
		InspectSecret:        inspect.Secret().Name, LeaderElection: o.LeaderElection,
	}
}

// config returns the client configuration with the user agent.
func (o *Options) config() *rest.Config {
	c := rest.CopyConfig(o.Config)
	c.UserAgent = programName + "/" + o.Version
	if o.Name != "" {
		c.UserAgent = o.Name + "/" + o.Version + " " + programName
	}
	return c
}

// newClient returns the client that all packages share. It has no rate limit by default,
// since the API server has priority and fairness.
func newClient(o Options) (rest.Interface, error) {
	c := o.config()
	c.QPS, c.Burst = -1, -1
	if o.ClientQPS > 0 {
		c.QPS, c.Burst = o.ClientQPS, cmp.Or(o.ClientBurst, max(1, int(2*o.ClientQPS)))
	}
	// The server is near: compression costs both sides more than it saves.
	c.DisableCompression = true
	return request.NewClient(c)
}

// check validates the options.
func (o Options) check() error {
	if err := controllers.CheckGoControllers(o.GoControllers); err != nil {
		return err
	}
	if o.Dashboard != nil {
		if err := o.Dashboard.Check(); err != nil {
			return err
		}
	}
	if err := o.Admission.Check(); err != nil {
		return err
	}
	if _, err := labels.Parse(o.Selector); err != nil {
		return fmt.Errorf("controller selector: %w", err)
	}
	if err := serving.CheckInspectAddress(o.InspectAddress); err != nil {
		return err
	}
	switch o.ApplyStrategy {
	case plan.Merge, plan.ServerSide:
		return o.LeaderElection.Check()
	}
	return fmt.Errorf("apply strategy %q is not %s or %s", o.ApplyStrategy, plan.Merge, plan.ServerSide)
}

// ParseHistory parses the size of the history, such as 32Mi; 0 disables it.
func ParseHistory(text string) (inspect.HistoryOptions, error) {
	bytes, err := ParseBytes(text)
	return inspect.HistoryOptions{Off: bytes == 0, MaxBytes: bytes}, err
}

// ParseBytes parses a quantity of bytes, such as 32Mi.
func ParseBytes(text string) (int, error) {
	quantity, err := resource.ParseQuantity(text)
	bytes := quantity.Value()
	switch {
	case err != nil:
		return 0, fmt.Errorf("must be a quantity of bytes such as 32Mi, not %q", text)
	case bytes < 0, bytes > math.MaxInt32:
		return 0, fmt.Errorf("must be at least 0 and less than 2Gi, not %s", text)
	}
	return int(bytes), nil
}

// Dashboard opens the endpoints of a dashboard. It is an interface so that programs without
// a dashboard do not link its pages.
type Dashboard interface {
	// Check validates the configuration.
	Check() error
	// Open opens the endpoints, of which there may be none.
	Open(ctx context.Context, p DashboardProcess) ([]serving.Endpoint, error)
}

// DashboardProcess is the process that a dashboard shows. Its Source stays the same, since pages wait for its changes.
type DashboardProcess struct {
	Config  *rest.Config
	Source  inspect.Source
	Version string
	Log     *slog.Logger
}

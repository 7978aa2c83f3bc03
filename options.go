package setpoint

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/sdk"
	tracing "github.com/setpoint-dev/setpoint/internal/trace"
)

// Options configure how an app runs. The zero value connects to the cluster of the
// environment.
type Options struct {
	// Kubeconfig is a kubeconfig file, and Context one of its contexts. If both are
	// empty, the app uses $KUBECONFIG, the cluster that it runs in, or the current
	// context of ~/.kube/config.
	Kubeconfig, Context string
	// Namespaces limit the handled objects and the writes of their handlers; none means
	// all. Cluster-scoped objects are always handled, and their handlers may write in all
	// namespaces.
	Namespaces []string
	// Namespace is the namespace of the program, for the leader lease and Secrets. The
	// default is that of the pod, or "default".
	Namespace string
	// Admission configures how the API server reaches the admission webhooks.
	Admission Admission
	// LeaderElection configures which replica is active. The zero value disables it.
	LeaderElection LeaderElection
	// Workers is the maximum number of concurrent reconciles of one controller. The
	// default is 32.
	Workers int
	// AllowBreakingCRDs allows upgrades of CRDs that could break stored objects or
	// clients.
	AllowBreakingCRDs bool
	// ClientQPS and ClientBurst limit requests to the API server, per second on average
	// and at once. The default is no limit, because the API server has priority and
	// fairness.
	ClientQPS   float32
	ClientBurst int
	// ShutdownTimeout is how long Run waits for handlers and daemons after its context
	// ends. The default is 10s. After that Run logs those that have not returned, drops
	// their writes, and returns an error.
	ShutdownTimeout time.Duration
	// Address serves /healthz, /readyz and /metrics, such as ":8080"; "" disables it.
	// HealthAddress also serves the first two.
	Address, HealthAddress string
	// InspectAddress serves setpoint get, setpoint why and other commands. It is a
	// loopback address such as "127.0.0.1:8082", or "auto", which is that one in a
	// cluster and a free port under setpoint dev; "" disables it.
	InspectAddress string
	// HistorySize is the maximum size of the reconcile history in bytes. The default is
	// 32 MiB; a negative size disables it.
	HistorySize int
	// RecordFile is a file to record all calls of hooks and handlers to, for setpoint record
	// --cases; "" for none. It is renamed to RecordFile.1 when it has half of RecordMaxSize
	// bytes, by default 256 MiB.
	RecordFile    string
	RecordMaxSize int
	// TracerProvider gets spans of reconciles, calls and writes. If it is nil, the environment variables of
	// OpenTelemetry decide: $OTEL_EXPORTER_OTLP_ENDPOINT turns traces on. The context of a handler has its span.
	TracerProvider trace.TracerProvider
	// TraceAnnotations writes the trace to the annotation tracing.k8s.io/traceparent of new children.
	TraceAnnotations bool
	// Version is the program's version in the user agent. The default is the one that the
	// go command stamps.
	Version string
	// Profiling serves Go profiles at Address, under /debug/pprof.
	Profiling bool
	// Log is slog.Default if nil.
	Log *slog.Logger
	// Ready is called once, when the controllers run or stand by.
	Ready func()
}

// LeaderElection selects the active replica of a program. The others stand by with filled
// caches. After a clean stop the next one takes over within 2.2 RetryPeriods, after a
// crash within a LeaseDuration and 4.4 RetryPeriods.
type LeaderElection struct {
	Enabled bool
	// Name and Namespace are those of the Lease. The defaults are the app's name and
	// Options.Namespace.
	Name, Namespace string
	// Identity identifies this replica. The default is the host name and a random text.
	Identity string
	// LeaseDuration is how long the others wait for a leader that does not renew its
	// lease (default 10s), RenewDeadline how long a leader that cannot renew stays active
	// (7s), and RetryPeriod the interval of renewals and checks (1s).
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Admission configures how the API server reaches the admission webhooks. By default it
// uses the Service with the app's name in a cluster, and loopback otherwise, as under
// `setpoint dev`.
type Admission struct {
	// Address serves the webhooks. The default is ":9443" in a cluster, and a free port
	// on loopback otherwise.
	Address string
	// Service is the name of the Service in Options.Namespace, and Port its port, 443 by
	// default. All replicas share a certificate in the Secret SERVICE-admission.
	Service string
	Port    int32
	// URL is the URL of the webhooks if not a Service, such as
	// "https://dev.example.com:9443". It takes precedence over Service.
	URL string
	// ClientCAFile has the CAs, as PEM, of the client certificate that the API server
	// must present; "" requires none.
	ClientCAFile string
	// CertificateSecretName is a Secret in the namespace of the program with the certificate
	// to serve, such as one of cert-manager: tls.crt, tls.key, and ca.crt. It is read and
	// watched. If empty, the program makes certificates.
	CertificateSecretName string
	// CertificateLifetime is the lifetime of a serving certificate, 90 days by default,
	// renewed after two thirds of it. A CA is valid for eight times as long.
	CertificateLifetime time.Duration
}

// convert returns the options as package sdk has them.
func (o *Options) convert() sdk.Options {
	return sdk.Options{Kubeconfig: o.Kubeconfig, Context: o.Context, Ready: o.Ready, Options: manager.Options{
		Version: o.Version, ClientQPS: o.ClientQPS, ClientBurst: o.ClientBurst,
		AllowBreakingCRDs: o.AllowBreakingCRDs,
		Settings:          compile.Settings{Workers: o.Workers, Namespace: o.Namespace, Namespaces: o.Namespaces},
		LeaderElection:    leader.Election(o.LeaderElection), Admission: serving.AdmissionOptions(o.Admission),
		ShutdownTimeout: o.ShutdownTimeout, Profiling: o.Profiling, Log: o.Log,
		Address: o.Address, HealthAddress: o.HealthAddress, InspectAddress: o.InspectAddress,
		History:   inspect.HistoryOptions{Off: o.HistorySize < 0, MaxBytes: max(0, o.HistorySize)},
		Recording: manager.Recording{File: o.RecordFile, MaxBytes: o.RecordMaxSize},
		Traces:    &tracing.Config{Provider: o.TracerProvider, Annotate: o.TraceAnnotations},
	}}
}

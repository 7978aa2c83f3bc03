// Package flags declares the command-line flags that `setpoint run` and programs of the SDK
// share: their names, defaults, help texts and validation.
//
// It knows no command line library beside package flag, and reads no environment. Package
// cli and the SDK register the flags and turn them into their own options.
package flags

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Flags are the values of the shared flags.
type Flags struct {
	Kubeconfig, Context string
	Namespace           string
	Namespaces          Namespaces
	Workers             int
	QPS                 float64
	Burst               int
	LeaderElect         *Choice
	LeaderElection      leader.Election
	Address             string
	HealthAddress       string
	Admission           serving.AdmissionOptions
	InspectAddress      string
	Profiling           bool
	LogFormat, LogLevel *Choice

	recording     RecordFlags
	traces        TraceFlags
	historySize   string
	admissionPort uint
}

// AddressAuto selects an address by the environment.
const AddressAuto = "auto"

// Defaults are the defaults that depend on the program.
type Defaults struct {
	// Program is the name of the program in help texts.
	Program string
	// LeaseName and ServiceName are the default names of the Lease and the Service, as help
	// texts explain them.
	LeaseName, ServiceName string
}

// Register registers the flags.
func (f *Flags) Register(set *flag.FlagSet, d Defaults) {
	f.LeaderElect = OneOf("auto", "true", "false")
	f.LeaderElect.bare = true
	f.LogFormat, f.LogLevel = OneOf("text", "json"), OneOf("info", "debug", "warn", "error")
	set.StringVar(&f.Kubeconfig, "kubeconfig", "",
		"`file` with the cluster to use (default: $KUBECONFIG, the in-cluster config, or ~/.kube/config)")
	set.StringVar(&f.Context, "context", "", "`name` of the kubeconfig context to use")
	set.StringVar(&f.Namespace, "namespace", "", "`namespace` of "+d.Program+
		", for its Lease and Secrets (default: $POD_NAMESPACE, that of the pod, or default)")
	set.Var(&f.Namespaces, "namespaces", "comma-separated `namespaces` in which "+d.Program+
		" handles objects (default: $SETPOINT_NAMESPACES, or all)")
	set.IntVar(&f.Workers, "workers", 32, "maximum concurrent reconciles of each controller")
	set.Float64Var(&f.QPS, "kube-api-qps", 0, "maximum requests per second to the API server; 0 leaves the limit to the server")
	set.IntVar(&f.Burst, "kube-api-burst", 0, "maximum burst of requests to the API server; 0 means twice --kube-api-qps")
	set.StringVar(&f.Address, "address", AddressAuto, "listen `address` of /healthz, /readyz and /metrics; auto uses :8080 in a pod, "+
		"else 127.0.0.1:8080; empty disables them")
	set.StringVar(&f.HealthAddress, "health-address", "", "additional listen `address` of /healthz and /readyz only")
	set.StringVar(&f.InspectAddress, "inspect-address", manager.InspectAuto, "loopback `address` of the inspect endpoint for setpoint "+
		"get, why and tree; auto uses 127.0.0.1:8082 inside a cluster, and a free port with a kubeconfig of setpoint dev; empty disables it")
	set.StringVar(&f.historySize, "history-size", "32Mi", "maximum `bytes` of reconcile history to keep in memory; 0 disables it")
	f.recording.Register(set)
	f.traces.Register(set)
	set.BoolVar(&f.Profiling, "profiling", false, "serve pprof profiles at --address, under /debug/pprof")
	set.Var(f.LogFormat, "log-format", "log `format`, text or json")
	set.Var(f.LogLevel, "log-level", "lowest log `level`: debug, info, warn or error")
	f.registerLeaderElection(set, d)
	f.registerAdmission(set, d)
}

func (f *Flags) registerLeaderElection(set *flag.FlagSet, d Defaults) {
	e := &f.LeaderElection
	set.Var(f.LeaderElect, "leader-elect", "elect a leader among replicas: `auto|true|false`; auto does inside a cluster")
	set.StringVar(&e.Name, "leader-elect-resource-name", "", "`name` of the leader election Lease (default: "+d.LeaseName+")")
	set.StringVar(&e.Namespace, "leader-elect-resource-namespace", "", "`namespace` of the Lease (default: --namespace)")
	set.DurationVar(&e.LeaseDuration, "leader-elect-lease-duration", leader.DefaultLeaseDuration,
		"how long standbys wait before they take over the Lease of a silent leader")
	set.DurationVar(&e.RenewDeadline, "leader-elect-renew-deadline", leader.DefaultRenewDeadline,
		"how long a leader tries to renew the Lease before it stops leading")
	set.DurationVar(&e.RetryPeriod, "leader-elect-retry-period", leader.DefaultRetryPeriod, "interval of renewing and checking the Lease")
}

func (f *Flags) registerAdmission(set *flag.FlagSet, d Defaults) {
	a := &f.Admission
	set.StringVar(&a.Address, "admission-address", "",
		"listen `address` of the admission webhook server (default: :9443 inside a cluster, else a free loopback port)")
	set.StringVar(&a.Service, "admission-service", "", "`name` of the Service of the webhook server, in the namespace of "+d.Program+
		" (default inside a cluster: "+d.ServiceName+")")
	set.UintVar(&f.admissionPort, "admission-service-port", 0, "`port` of that Service; 0 means 443")
	set.StringVar(&a.URL, "admission-url", "", "`URL` of the webhook server instead of a Service, such as https://dev.example.com:9443")
	set.StringVar(&a.ClientCAFile, "admission-client-ca-file", "",
		"`file` with the CAs, in PEM, of the API server's client certificate, which is required then")
	set.StringVar(&a.CertificateSecretName, "admission-certificate-secret", "", "`name` of a Secret in that namespace with the "+
		"certificate of the webhook server, such as one of cert-manager: tls.crt, tls.key and ca.crt (default: "+d.Program+
		" makes certificates)")
	set.DurationVar(&a.CertificateLifetime, "admission-certificate-lifetime", 0, "lifetime of the serving certificate, which is renewed "+
		"after two thirds of it; 0 means 90 days. The CA lives eight times as long")
}

// namespacesVariable is the default of --namespaces. `setpoint dev --context` sets it for operators.
const namespacesVariable = "SETPOINT_NAMESPACES"

// Check validates the values and completes Admission. Its errors name the flag.
func (f *Flags) Check() error {
	if f.admissionPort > 65535 {
		return fmt.Errorf("--admission-service-port must be at most 65535, not %d", f.admissionPort)
	}
	f.Admission.Port = int32(f.admissionPort)
	f.resolveAddress()
	if variable := os.Getenv(namespacesVariable); len(f.Namespaces) == 0 && variable != "" {
		if err := f.Namespaces.Set(variable); err != nil {
			return fmt.Errorf("$%s: %w", namespacesVariable, err)
		}
	}
	switch {
	case f.Workers < 1:
		return fmt.Errorf("--workers must be at least 1, not %d", f.Workers)
	case f.QPS < 0:
		return errors.New("--kube-api-qps must not be negative")
	case f.Burst < 0:
		return errors.New("--kube-api-burst must not be negative")
	case f.Admission.CertificateLifetime < 0:
		return errors.New("--admission-certificate-lifetime must not be negative")
	}
	if _, err := manager.ParseHistory(f.historySize); err != nil {
		return fmt.Errorf("--history-size %w", err)
	}
	if err := f.traces.Check(); err != nil {
		return err
	}
	return f.recording.Check()
}

// LocalAddress is what AddressAuto is outside of pods.
const LocalAddress = "127.0.0.1:8080"

// resolveAddress resolves AddressAuto: only a pod has clients elsewhere by default, its kubelet and Prometheus.
func (f *Flags) resolveAddress() {
	if f.Address != AddressAuto {
		return
	}
	f.Address = LocalAddress
	if manager.InPod() {
		f.Address = ":8080"
	}
}

// Traces returns where spans go, as Check has read; nil if traces are off.
func (f *Flags) Traces() *trace.Config { return f.traces.Options() }

// Recording returns the options of --record, which Check has validated.
func (f *Flags) Recording() manager.Recording { return f.recording.Options() }

// History returns the size of the history, which Check has validated.
func (f *Flags) History() inspect.HistoryOptions {
	history, _ := manager.ParseHistory(f.historySize)
	return history
}

// Elects reports whether to elect a leader.
func (f *Flags) Elects(inCluster bool) bool {
	return f.LeaderElect.Value == "true" || f.LeaderElect.Value == "auto" && inCluster
}

package controlplane

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/names"
	"github.com/setpoint-dev/setpoint/controlplane/internal/supervise"
)

// etcdGrace lets etcd finish its last transactions in a directory that stays.
const etcdGrace = time.Second

// componentSpec holds the settings of one component.
type componentSpec struct {
	args  []string
	env   []string
	grace time.Duration
	needs func(context.Context) error
}

// specOf completes a component's recipe with what all of them share.
func (c *Cluster) specOf(component string) supervise.Spec {
	r := c.componentSpec(component)
	spec := supervise.Spec{
		Name:  component,
		Path:  c.opts.Executable,
		Args:  slices.Concat([]string{names.Command, component}, r.args, c.opts.Args[component]),
		Env:   append(inherited(), r.env...),
		Dir:   c.dir.Path("run"),
		Log:   c.logFile(component),
		Grace: r.grace,
		Needs: r.needs,
	}
	c.binaries.use(&spec)
	return spec
}

func (c *Cluster) componentSpec(component string) componentSpec {
	switch component {
	case names.Etcd:
		return c.etcd()
	case names.APIServer:
		return c.apiServer()
	case names.ControllerManager:
		return c.controllerManager()
	case names.Scheduler:
		return c.scheduler()
	default:
		return c.kwok()
	}
}

// inherited is the part of our environment that the components see: files, and how much memory Go may use to save time.
// The rest, such as the reader's own ETCD_… or KWOK_… settings, is none of theirs.
func inherited() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOGC", "GOMEMLIMIT"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// etcdSocket is relative to the working directory of the components, because the
// kernel allows little more than a hundred characters. The directory is private,
// and that makes the socket as safe as TLS and faster.
const etcdSocket = "etcd.sock"

func (c *Cluster) etcd() componentSpec {
	r := componentSpec{
		args: []string{
			"--name=setpoint",
			"--initial-cluster=setpoint=http://localhost:2380",
			"--data-dir=" + c.dir.Path("etcd"),
			"--unix-socket=" + etcdSocket,
			"--ready-file=" + c.etcdReadyFile(),
			"--logger=zap", "--log-level=warn", "--log-outputs=stderr",
			// Unset, it has every single request logged.
			"--warning-unary-request-duration=300ms",
			// Raft keeps this many entries in memory, objects and all, for
			// followers that do not exist.
			"--snapshot-count=5000",
			"--snapshot-catchup-entries=100",
			"--quota-backend-bytes=8589934592",
			"--max-request-bytes=3145728",
		},
		grace: etcdGrace,
	}
	if c.dir.Temporary() {
		r.args = append(r.args, "--unsafe-no-fsync")
		r.grace = 0
	}
	return r
}

func (c *Cluster) apiServer() componentSpec {
	return componentSpec{
		args: append(append(c.serving(names.APIServer), c.binaries.featureGates()...),
			"--etcd-servers=unix://"+etcdSocket,
			// Loopback addresses may not be published as endpoints, and no pod
			// would be there to use them.
			"--advertise-address=127.0.0.1",
			"--endpoint-reconciler-type=none",
			"--service-cluster-ip-range="+serviceRange,
			"--client-ca-file="+c.credentials.certFile("ca"),
			"--requestheader-client-ca-file="+c.credentials.certFile(frontProxy+"-ca"),
			"--requestheader-allowed-names="+frontProxy,
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file="+c.credentials.certFile(frontProxy),
			"--proxy-client-key-file="+c.credentials.keyFile(frontProxy),
			"--authorization-mode=RBAC",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file="+c.credentials.certFile("service-accounts"),
			"--service-account-signing-key-file="+c.credentials.keyFile("service-accounts"),
			"--allow-privileged=true",
			"--profiling=false",
		),
	}
}

func (c *Cluster) controllerManager() componentSpec {
	return componentSpec{
		args: append(append(c.serving(names.ControllerManager), c.delegating(names.ControllerManager)...),
			"--use-service-account-credentials=true",
			"--service-account-private-key-file="+c.credentials.keyFile("service-accounts"),
			"--root-ca-file="+c.credentials.certFile("ca"),
			"--cluster-signing-cert-file="+c.credentials.certFile("ca"),
			"--cluster-signing-key-file="+c.credentials.keyFile("ca"),
			"--leader-elect=false",
			"--node-monitor-grace-period=1h", // kwok's nodes write every ten minutes
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
			"--profiling=false",
		),
		needs: c.ready(names.APIServer),
	}
}

func (c *Cluster) scheduler() componentSpec {
	return componentSpec{
		args: append(append(c.serving(names.Scheduler), c.delegating(names.Scheduler)...),
			"--leader-elect=false",
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
			"--profiling=false",
		),
		needs: c.ready(names.APIServer),
	}
}

// kwok limits itself to no request rate; how many stages it plays at once is in
// its configuration.
func (c *Cluster) kwok() componentSpec {
	return componentSpec{
		args: []string{
			"--config=" + c.stagesFile(),
			"--kubeconfig=" + c.credentials.clientConfig(names.Kwok),
		},
		// Its home decides where it looks for more configuration.
		env:   []string{"KWOK_WORKDIR=" + c.dir.Path("run", "kwok")},
		needs: c.ready(names.APIServer),
	}
}

// serving are the flags for a loopback port that we hold reserved.
func (c *Cluster) serving(component string) []string {
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports[component].Number()),
		"--permit-port-sharing=true",
		"--tls-cert-file=" + c.credentials.certFile(component),
		"--tls-private-key-file=" + c.credentials.keyFile(component),
	}
}

// delegating are the flags of a client of the API server that lets it decide on
// its own callers.
func (c *Cluster) delegating(component string) []string {
	config := c.credentials.clientConfig(component)
	return []string{
		"--kubeconfig=" + config,
		"--authentication-kubeconfig=" + config,
		"--authorization-kubeconfig=" + config,
	}
}

func (c *Cluster) etcdReadyFile() string { return c.dir.Path("run", "etcd.ready") }

// ready asks a component itself.
func (c *Cluster) ready(component string) func(context.Context) error {
	path := "/healthz"
	if component == names.APIServer {
		path = "/readyz"
	}
	return func(ctx context.Context) error { return c.admin.Get(ctx, c.url(component)+path, nil) }
}

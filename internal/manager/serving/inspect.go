package serving

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/types"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
)

// AnyLoopbackPort is the address of processes that publish their port.
const AnyLoopbackPort = "127.0.0.1:0"

// PodInspectAddress is the inspect address in pods.
func PodInspectAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(locate.DefaultPort))
}

// Inspect configures the inspect endpoint, which shows the state of this process to others on
// this machine (see inspect/wire).
type Inspect struct {
	// Address is on loopback; "" disables the endpoint.
	Address string
	// Dir is the directory to publish the address in, with the token that clients need; if
	// empty, the token is in a Secret (see inspect/locate/token).
	Dir string
	// Namespace is that of Setpoint, and of the Secret outside of pods.
	Namespace string
	Config    *rest.Config
	Source    inspect.Source
	// Published is called with the pod and port of the endpoint.
	Published func(address string)
	Log       *slog.Logger
}

// CheckInspectAddress accepts loopback addresses only: the endpoint shows all objects of the controllers.
func CheckInspectAddress(address string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("inspect address %q: %w; use an address such as 127.0.0.1:8082", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("inspect address %q is not on loopback, such as 127.0.0.1:8082: the endpoint shows all objects of the "+
			"controllers; use port-forward to reach it from elsewhere", address)
	}
	return nil
}

// Open opens the endpoint, if it is enabled, and publishes its address until unpublish is called.
func (i *Inspect) Open(ctx context.Context) (endpoints []Endpoint, unpublish func(), err error) {
	if i.Address == "" {
		return nil, func() {}, nil
	}
	listener, err := i.listen(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("serve the inspect endpoint: %w", err)
	}
	guard, shown, err := i.guard(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	unpublish = i.publish(locate.ProcessEntry{Name: i.Source.Name(), PID: os.Getpid(), Address: listener.Addr().String(), Token: shown})
	i.Log.Debug("serving the inspect endpoint", "address", listener.Addr().String())
	return []Endpoint{{listener, wire.Handler(i.Source, guard)}}, unpublish, nil
}

// guard authorizes requests: by a token published in Dir or, without the directory, by a token in a Secret.
func (i *Inspect) guard(ctx context.Context) (guard wire.Guard, published string, err error) {
	if i.Secret() == (types.NamespacedName{}) {
		published = rand.Text()
		return wire.Token(published), published, nil
	}
	client, err := core.NewForConfig(i.Config)
	if err != nil {
		return nil, "", fmt.Errorf("create a client for the inspect token: %w", err)
	}
	namespace := i.Secret().Namespace
	bySecret := token.NewGuard(client.Secrets(namespace), namespace, i.Log)
	go bySecret.Prepare(ctx)
	return bySecret, "", nil
}

// Secret returns the Secret with the token of the endpoint; the zero value if there is none.
func (i *Inspect) Secret() types.NamespacedName {
	if i.Address == "" || i.Dir != "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: podNamespace(i.Namespace), Name: token.SecretName}
}

// listen opens the endpoint, on another port if the usual one is taken in this pod.
func (i *Inspect) listen(ctx context.Context) (net.Listener, error) {
	listener, err := listen(ctx, i.Address)
	if i.Address == PodInspectAddress() && errors.Is(err, syscall.EADDRINUSE) {
		i.Log.Warn("inspect port is in use; using another one", "address", i.Address)
		return listen(ctx, AnyLoopbackPort)
	}
	return listener, err
}

// publish publishes the address of this process: in Dir on this machine, else, while it leads, in the Lease.
// A failure is logged only.
func (i *Inspect) publish(e locate.ProcessEntry) (unpublish func()) {
	if i.Dir == "" {
		if _, port, err := net.SplitHostPort(e.Address); err == nil {
			i.Published(podName(i.Namespace) + ":" + port)
		}
		return func() {}
	}
	unpublish, err := locate.Publish(i.Dir, e)
	if err != nil {
		i.Log.Warn("process not published; `setpoint get` will not find it", "error", err.Error())
		return func() {}
	}
	return unpublish
}

// InstanceName identifies this process among its replicas: the pod's or the host's name.
func InstanceName() string {
	machine, _ := os.Hostname() // The name may be empty.
	return cmp.Or(os.Getenv("POD_NAME"), machine)
}

// podName returns the pod of this process as namespace/name, or that of the host.
func podName(namespace string) string { return podNamespace(namespace) + "/" + InstanceName() }

// podNamespace returns the namespace of the pod, if the environment has it.
func podNamespace(namespace string) string { return cmp.Or(os.Getenv("POD_NAMESPACE"), namespace) }

// Diagnostic returns one of inspect.Diagnostics of this process.
func Diagnostic(name string, metrics prometheus.Gatherer) ([]byte, error) {
	var out bytes.Buffer
	switch name {
	case inspect.DiagnosticCommand:
		out.WriteString(strings.Join(os.Args, "\n") + "\n")
		return out.Bytes(), nil
	case inspect.DiagnosticMetrics: // As /metrics has them.
		families, err := metrics.Gather()
		if err != nil {
			return nil, fmt.Errorf("gather metrics: %w", err)
		}
		for _, family := range families {
			if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
				return nil, fmt.Errorf("write the metric %s: %w", family.GetName(), err)
			}
		}
		return out.Bytes(), nil
	case inspect.DiagnosticGoroutines:
		err := pprof.Lookup("goroutine").WriteTo(&out, 1)
		return out.Bytes(), err
	}
	return nil, fmt.Errorf("the diagnostic %q does not exist: use one of %s", name, strings.Join(inspect.Diagnostics, ", "))
}

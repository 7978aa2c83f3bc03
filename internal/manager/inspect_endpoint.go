package manager

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery/token"
	"github.com/setpoint-dev/setpoint/internal/dashboard/wire"
)

// InspectAuto selects an address by the environment, see Cluster.InspectAddress.
const InspectAuto = "auto"

// anyLoopbackPort is the address of processes that publish their port.
const anyLoopbackPort = "127.0.0.1:0"

// podInspectAddress is the inspect address in pods.
func podInspectAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(discovery.DefaultPort))
}

// InspectAddress resolves InspectAuto: a well-known port in a pod, which is reached by
// port-forward; any port where there is a directory to publish it in; else none. Other
// addresses stay.
func (c Cluster) InspectAddress(address string) string {
	switch {
	case address != InspectAuto:
		return address
	case c.InCluster:
		return podInspectAddress()
	case c.ProcessDir != "":
		return anyLoopbackPort
	}
	return ""
}

// checkInspectAddress accepts loopback addresses only: the endpoint shows all objects of the
// controllers.
func checkInspectAddress(address string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("inspect address %q: %w; use an address such as 127.0.0.1:8082", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("inspect address %q is not on loopback, such as 127.0.0.1:8082: the endpoint shows all objects of the controllers; use port-forward to reach it from elsewhere", address)
	}
	return nil
}

// startInspectEndpoint opens the inspect endpoint, if it is enabled, and publishes its
// address until unpublish is called.
func (m *Manager) startInspectEndpoint(ctx context.Context) (endpoints []HTTPEndpoint, unpublish func(), err error) {
	if m.options.InspectAddress == "" {
		return nil, func() {}, nil
	}
	listener, err := m.listenInspect(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("serve the inspect endpoint: %w", err)
	}
	guard, shown, err := m.inspectGuard(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	source := m.Inspect()
	unpublish = m.publish(discovery.ProcessEntry{Name: source.Name(), PID: os.Getpid(), Address: listener.Addr().String(), Token: shown})
	m.log.Debug("serving the inspect endpoint", "address", listener.Addr().String())
	return []HTTPEndpoint{{listener, wire.Handler(source, guard)}}, unpublish, nil
}

// inspectGuard authorizes requests: by a token published in InspectDir or, without the
// directory, by a token in a Secret.
func (m *Manager) inspectGuard(ctx context.Context) (guard wire.Guard, published string, err error) {
	if !m.options.usesInspectSecret() {
		published = rand.Text()
		return wire.Token(published), published, nil
	}
	config := rest.CopyConfig(m.options.Config)
	config.UserAgent = m.options.userAgent()
	client, err := core.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("create a client for the inspect token: %w", err)
	}
	namespace := podNamespace(m.options.Namespace)
	bySecret := token.NewGuard(client.Secrets(namespace), namespace, m.log)
	go bySecret.Prepare(ctx)
	return bySecret, "", nil
}

// usesInspectSecret reports whether the token of the inspect endpoint is in a Secret.
func (o *Options) usesInspectSecret() bool { return o.InspectAddress != "" && o.InspectDir == "" }

// InspectSecret returns the empty Secret to create before a Manager runs; nil if it needs
// none.
func InspectSecret(o Options) *corev1.Secret {
	if !o.usesInspectSecret() {
		return nil
	}
	return token.NewSecret(o.withDefaults().Namespace)
}

// listenInspect opens the endpoint, on another port if the usual one is taken in this pod.
func (m *Manager) listenInspect(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	address := m.options.InspectAddress
	listener, err := config.Listen(ctx, "tcp", address)
	if address == podInspectAddress() && errors.Is(err, syscall.EADDRINUSE) {
		m.log.Warn("inspect port is in use; using another one", "address", address)
		listener, err = config.Listen(ctx, "tcp", anyLoopbackPort)
	}
	return listener, err
}

// publish publishes the address of this process in InspectDir and, while it leads, in the
// Lease. A failure is logged only.
func (m *Manager) publish(e discovery.ProcessEntry) (unpublish func()) {
	if _, port, err := net.SplitHostPort(e.Address); err == nil {
		m.leader.SetAddress(podName(m.options.Namespace) + ":" + port)
	}
	if m.options.InspectDir == "" {
		return func() {}
	}
	unpublish, err := discovery.Publish(m.options.InspectDir, e)
	if err != nil {
		m.log.Warn("process not published; `setpoint get` will not find it", "error", err.Error())
		return func() {}
	}
	return unpublish
}

// podName returns the pod of this process as namespace/name, or that of the host.
func podName(namespace string) string {
	machine, _ := os.Hostname() // The name may be empty.
	return podNamespace(namespace) + "/" + cmp.Or(os.Getenv("POD_NAME"), machine)
}

// podNamespace returns the namespace of the pod, if the environment has it.
func podNamespace(namespace string) string { return cmp.Or(os.Getenv("POD_NAMESPACE"), namespace) }

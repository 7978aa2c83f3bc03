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
	"github.com/setpoint-dev/setpoint/internal/object"
)

// InspectAuto is the address that suits the place, see Cluster.InspectAddress.
const InspectAuto = "auto"

// secretResource are the kind of the Secret with the token of the inspect endpoint.
var secretResource = object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}

// anyLoopbackPort is for processes that are found by what they publish.
const anyLoopbackPort = "127.0.0.1:0"

// podInspectAddress is where pods are inspected.
func podInspectAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(discovery.DefaultPort))
}

// InspectAddress is what Options.InspectAddress should be where a user says so:
// itself, or what suits the place for InspectAuto. In a pod that is a port that is
// known, for the API server leads there; elsewhere any, if there is a folder to
// publish it in; else nowhere, for nobody could find it.
func (c Cluster) InspectAddress(said string) string {
	switch {
	case said != InspectAuto:
		return said
	case c.InCluster:
		return podInspectAddress()
	case c.ProcessDir != "":
		return anyLoopbackPort
	}
	return ""
}

// checkInspectAddress refuses what others than this machine could come to: what is
// read there is not for everybody.
func checkInspectAddress(address string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("the address to inspect at, %q: %w; such as 127.0.0.1:8082", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("the address to inspect at, %q, must be one of loopback, such as 127.0.0.1:8082: whoever reaches it sees what controllers see; from elsewhere it is reached by port-forward", address)
	}
	return nil
}

// startInspectEndpoint opens the door for who inspects, if there is to be one, and publishes
// where it is. What it returns takes that back.
func (m *Manager) startInspectEndpoint(ctx context.Context) (doors []httpEndpoint, unpublish func(), err error) {
	if m.options.InspectAddress == "" {
		return nil, func() {}, nil
	}
	listener, err := m.listenInspect(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("serve inspection: %w", err)
	}
	guard, shown, err := m.inspectGuard(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	source := m.Inspect()
	unpublish = m.publish(discovery.ProcessEntry{Name: source.Name(), PID: os.Getpid(), Address: listener.Addr().String(), Token: shown})
	m.log.Debug("serving inspection", "address", listener.Addr().String())
	return []httpEndpoint{{listener, wire.Handler(source, guard)}}, unpublish, nil
}

// inspectGuard decides who may read: in a folder, the users who may read the token that
// is published there; elsewhere, those who may read the Secret.
func (m *Manager) inspectGuard(ctx context.Context) (guard wire.Guard, published string, err error) {
	if !m.options.usesInspectSecret() {
		published = rand.Text()
		return wire.Token(published), published, nil
	}
	config := rest.CopyConfig(m.options.Config)
	config.UserAgent = m.options.userAgent()
	client, err := core.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("make a client for the token of the inspect endpoint: %w", err)
	}
	namespace := podNamespace(m.options.Namespace)
	bySecret := token.NewGuard(client.Secrets(namespace), namespace, m.log)
	go bySecret.Prepare(ctx)
	return bySecret, "", nil
}

// usesInspectSecret says that the token of the inspect endpoint is in a Secret: that the
// endpoint is there, and that no folder has a token for it.
func (o *Options) usesInspectSecret() bool { return o.InspectAddress != "" && o.InspectDir == "" }

// inspectPermissions are for the Secret with that token. To create it is not among them:
// that right would be for all Secrets of the namespace.
func inspectPermissions(o *Options) []permission {
	if !o.usesInspectSecret() {
		return nil
	}
	return inNamespace(o.Namespace, forName(token.SecretName, permissionsFor(secretResource, "get", "update")))
}

// InspectSecret is the Secret, as it is created before a Host with these options runs; nil
// if it needs none.
func InspectSecret(o Options) *corev1.Secret {
	if !o.usesInspectSecret() {
		return nil
	}
	return token.NewSecret(o.withDefaults().Namespace)
}

// listenInspect listens. That somebody else in the pod has the usual port is no
// reason to fail: the Lease tells which it is.
func (m *Manager) listenInspect(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	address := m.options.InspectAddress
	listener, err := config.Listen(ctx, "tcp", address)
	if address == podInspectAddress() && errors.Is(err, syscall.EADDRINUSE) {
		m.log.Warn("the port to inspect at is taken; using another one", "address", address)
		listener, err = config.Listen(ctx, "tcp", anyLoopbackPort)
	}
	return listener, err
}

// publish says where this process is: in its folder, and in the lease while it leads.
// Who cannot be found that way works all the same.
func (m *Manager) publish(e discovery.ProcessEntry) (unpublish func()) {
	if _, port, err := net.SplitHostPort(e.Address); err == nil && m.leaseLock != nil {
		m.leaseLock.address.Store(new(podName(m.options.Namespace) + ":" + port))
	}
	if m.options.InspectDir == "" {
		return func() {}
	}
	unpublish, err := discovery.Publish(m.options.InspectDir, e)
	if err != nil {
		m.log.Warn("`setpoint get` does not find this process", "error", err.Error())
		return func() {}
	}
	return unpublish
}

// podName is the pod that this process is, as namespace/name. Outside of pods it is of
// no use, and does no harm.
func podName(namespace string) string {
	machine, _ := os.Hostname() // Without it, there is no name to publish.
	return podNamespace(namespace) + "/" + cmp.Or(os.Getenv("POD_NAME"), machine)
}

// podNamespace is that of the pod, where the environment says it.
func podNamespace(namespace string) string { return cmp.Or(os.Getenv("POD_NAMESPACE"), namespace) }

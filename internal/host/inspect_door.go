package host

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

	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/reach"
	"github.com/setpoint-dev/setpoint/internal/reach/token"
)

// InspectAuto is the address that suits the place, see Cluster.InspectAddress.
const InspectAuto = "auto"

// secrets are the kind of the Secret with the token of the inspect endpoint.
var secrets = object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}

// anyInspectPort is for processes that are found by what they publish.
const anyInspectPort = "127.0.0.1:0"

// insideInspectAddress is where pods are inspected.
func insideInspectAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(reach.DefaultPort))
}

// InspectAddress is what Options.InspectAddress should be where a user says so:
// itself, or what suits the place for InspectAuto. In a pod that is a port that is
// known, for the API server leads there; elsewhere any, if there is a folder to
// publish it in; else nowhere, for nobody could find it.
func (c Cluster) InspectAddress(said string) string {
	switch {
	case said != InspectAuto:
		return said
	case c.Inside:
		return insideInspectAddress()
	case c.Processes != "":
		return anyInspectPort
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

// openInspection opens the door for who inspects, if there is to be one, and publishes
// where it is. What it returns takes that back.
func (h *Host) openInspection(ctx context.Context) (doors []door, withdraw func(), err error) {
	if h.options.InspectAddress == "" {
		return nil, func() {}, nil
	}
	listener, err := h.listenToInspect(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("serve inspection: %w", err)
	}
	guard, shown, err := h.inspectGuard(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	source := h.Inspect()
	withdraw = h.publish(reach.Entry{Name: source.Name(), PID: os.Getpid(), Address: listener.Addr().String(), Token: shown})
	h.log.Debug("serving inspection", "address", listener.Addr().String())
	return []door{{listener, wire.Handler(source, guard)}}, withdraw, nil
}

// inspectGuard decides who may read: in a folder, the users who may read the token that
// is published there; elsewhere, those who may read the Secret.
func (h *Host) inspectGuard(ctx context.Context) (guard wire.Guard, published string, err error) {
	if !h.options.inspectedBySecret() {
		published = rand.Text()
		return wire.Token(published), published, nil
	}
	config := rest.CopyConfig(h.options.Config)
	config.UserAgent = h.options.userAgent()
	client, err := core.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("make a client for the token of the inspect endpoint: %w", err)
	}
	namespace := podNamespace(h.options.Namespace)
	bySecret := token.NewGuard(client.Secrets(namespace), namespace, h.log)
	go bySecret.Prepare(ctx)
	return bySecret, "", nil
}

// inspectedBySecret says that the token of the inspect endpoint is in a Secret: that the
// endpoint is there, and that no folder has a token for it.
func (o *Options) inspectedBySecret() bool { return o.InspectAddress != "" && o.InspectFolder == "" }

// needsOfInspection are for the Secret with that token. To create it is not among them:
// that right would be for all Secrets of the namespace.
func needsOfInspection(o *Options) []need {
	if !o.inspectedBySecret() {
		return nil
	}
	return in(o.Namespace, named(token.SecretName, verbs(secrets, "get", "update")))
}

// InspectSecret is the Secret, as it is created before a Host with these options runs; nil
// if it needs none.
func InspectSecret(o Options) *corev1.Secret {
	if !o.inspectedBySecret() {
		return nil
	}
	return token.Empty(o.withDefaults().Namespace)
}

// listenToInspect listens. That somebody else in the pod has the usual port is no
// reason to fail: the Lease tells which it is.
func (h *Host) listenToInspect(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	address := h.options.InspectAddress
	listener, err := config.Listen(ctx, "tcp", address)
	if address == insideInspectAddress() && errors.Is(err, syscall.EADDRINUSE) {
		h.log.Warn("the port to inspect at is taken; using another one", "address", address)
		listener, err = config.Listen(ctx, "tcp", anyInspectPort)
	}
	return listener, err
}

// publish says where this process is: in its folder, and in the lease while it leads.
// Who cannot be found that way works all the same.
func (h *Host) publish(e reach.Entry) (withdraw func()) {
	if _, port, err := net.SplitHostPort(e.Address); err == nil && h.lock != nil {
		h.lock.place.Store(new(podName(h.options.Namespace) + ":" + port))
	}
	if h.options.InspectFolder == "" {
		return func() {}
	}
	withdraw, err := reach.Publish(h.options.InspectFolder, e)
	if err != nil {
		h.log.Warn("`setpoint get` does not find this process", "error", err.Error())
		return func() {}
	}
	return withdraw
}

// podName is the pod that this process is, as namespace/name. Outside of pods it is of
// no use, and does no harm.
func podName(namespace string) string {
	machine, _ := os.Hostname() // Without it, there is no name to publish.
	return podNamespace(namespace) + "/" + cmp.Or(os.Getenv("POD_NAME"), machine)
}

// podNamespace is that of the pod, where the environment says it.
func podNamespace(namespace string) string { return cmp.Or(os.Getenv("POD_NAMESPACE"), namespace) }

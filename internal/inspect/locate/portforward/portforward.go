// Package portforward finds the processes in a cluster and reads them through the API server,
// with the permissions of the user.
//
// Processes are found by their Leases and reached by port-forward, so that nothing has to be
// exposed. What is read belongs in inspect, the protocol in wire.
package portforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	apps "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
)

// Location is a pod with an inspect endpoint.
type Location struct {
	// Name is the name of the process: that of its Lease.
	Name           string
	Namespace, Pod string
	Port           uint16
}

// String returns namespace/pod:port.
func (p Location) String() string {
	return net.JoinHostPort(p.Namespace+"/"+p.Pod, strconv.Itoa(int(p.Port)))
}

// Parse parses [namespace/]pod[:port]. The namespace defaults to home, the port to DefaultPort.
func Parse(text, home string) (Location, error) {
	pod, port, hasPort := strings.Cut(text, ":")
	p := Location{Namespace: home, Pod: pod, Port: locate.DefaultPort}
	if namespace, name, found := strings.Cut(pod, "/"); found {
		p.Namespace, p.Pod = namespace, name
	}
	p.Name = p.Pod
	if hasPort {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return Location{}, fmt.Errorf("%q has no valid port: use NAMESPACE/POD:PORT", text)
		}
		p.Port = uint16(number)
	}
	if p.Namespace == "" || p.Pod == "" || strings.Contains(p.Pod, "/") {
		return Location{}, fmt.Errorf("%q is not a pod: use NAMESPACE/POD or NAMESPACE/POD:PORT", text)
	}
	return p, nil
}

// Discover returns the pods of all annotated Leases. If the user may not list all Leases, it
// lists those of the namespace. Notes explain why Leases were ignored.
func Discover(ctx context.Context, config *rest.Config, namespace string) (locations []Location, notes []string, err error) {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("create client: %w", err)
	}
	leases, err := client.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		leases, err = client.Leases(namespace).List(ctx, metav1.ListOptions{})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list Leases: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		value := lease.Annotations[locate.LeaseAnnotation]
		if value == "" {
			continue
		}
		location, err := Parse(value, lease.Namespace)
		switch {
		case err != nil:
			notes = append(notes, fmt.Sprintf("ignored Lease %s/%s: %v", lease.Namespace, lease.Name, err))
			continue
		case location.Namespace != lease.Namespace:
			// A user who may write Leases in one namespace must not redirect requests to another.
			notes = append(notes, fmt.Sprintf("ignored Lease %s/%s: its pod is in another namespace; use --pod %s",
				lease.Namespace, lease.Name, location))
			continue
		}
		location.Name = lease.Name
		locations = append(locations, location)
	}
	return locations, notes, nil
}

// Replicas returns the other running pods of the ReplicaSet or StatefulSet that controls a pod: they have the
// same flags, and so the same port. Their names are those of the pods.
func Replicas(ctx context.Context, config *rest.Config, of Location) ([]Location, error) {
	client, err := core.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	pods := client.Pods(of.Namespace)
	pod, err := pods.Get(ctx, of.Pod, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", of.Namespace, of.Pod, err)
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil, nil
	}
	shared := labels.Set(pod.Labels)
	delete(shared, apps.StatefulSetPodNameLabel)
	delete(shared, apps.PodIndexLabel)
	list, err := pods.List(ctx, metav1.ListOptions{
		LabelSelector: shared.String(), FieldSelector: fields.OneTermEqualSelector("status.phase", string(corev1.PodRunning)).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list pods in %s: %w", of.Namespace, err)
	}
	var replicas []Location
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != of.Pod && metav1.IsControlledBy(other, &metav1.ObjectMeta{UID: owner.UID}) {
			replicas = append(replicas, Location{Name: other.Name, Namespace: of.Namespace, Pod: other.Name, Port: of.Port})
		}
	}
	return replicas, nil
}

// Connect returns the Source of a pod. It connects on the first call, and disconnects when ctx ends.
func Connect(ctx context.Context, config *rest.Config, at Location) (inspect.Source, error) {
	dialer, err := newDialer(config, at)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	secrets, err := core.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	credential := token.NewCredential(secrets.Secrets(at.Namespace), at.Namespace)
	t := &tunnel{location: at, dialer: dialer}
	transport := &http.Transport{DialContext: t.dial, MaxIdleConnsPerHost: 4}
	context.AfterFunc(ctx, func() {
		transport.CloseIdleConnections()
		t.close()
	})
	// The host is the loopback address of the pod, which the endpoint requires.
	base := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(int(at.Port)))}
	return wire.NewClient(at.Name, base, transport, credential), nil
}

// newDialer dials like kubectl: WebSocket, or SPDY if that is not supported.
func newDialer(config *rest.Config, at Location) (httpstream.Dialer, error) {
	client, err := core.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	target := client.RESTClient().Post().Resource("pods").Namespace(at.Namespace).Name(at.Pod).SubResource("portforward").URL()
	webSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	return portforward.NewFallbackDialerForStreaming(webSocket, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// tunnel is a connection to the API server with many connections to the pod. It does not listen
// on a local port, which other users could connect to.
type tunnel struct {
	location Location
	dialer   httpstream.Dialer

	mu         sync.Mutex
	connection httpstream.Connection
	requests   int
	closed     bool
}

// dial opens a connection to the pod. The address is ignored, and so is the context: a request whose context ends does not wait
// for its connection, which the transport keeps for the next one.
func (t *tunnel) dial(context.Context, string, string) (net.Conn, error) {
	s, err := t.open()
	if err != nil {
		return nil, fmt.Errorf("port-forward to pod %s: %w", t.location, err)
	}
	return s, nil
}

func (t *tunnel) open() (*stream, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.connect(); err != nil {
		return nil, err
	}
	t.requests++
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(int(t.location.Port)))
	header.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(t.requests))
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	problems, err := t.connection.CreateStream(header)
	if err != nil {
		return nil, err
	}
	_ = problems.Close() // Only the server writes to the error stream.
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := t.connection.CreateStream(header)
	s := &stream{Stream: data, location: t.location, errorRead: make(chan struct{})}
	go s.readError(problems)
	if err != nil { // The server may have reset it before it was there.
		defer t.connection.RemoveStreams(problems)
		return nil, s.streamError(err)
	}
	connection := t.connection
	s.remove = sync.OnceFunc(func() { connection.RemoveStreams(problems, data) })
	return s, nil
}

func (t *tunnel) connect() error {
	if t.closed {
		return net.ErrClosed
	}
	if t.connection != nil {
		select {
		case <-t.connection.CloseChan():
		default:
			return nil
		}
	}
	connection, protocol, err := t.dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return err
	}
	if protocol != portforward.PortForwardProtocolV1Name {
		_ = connection.Close()
		return fmt.Errorf("the API server supports the protocol %q, not %q", protocol, portforward.PortForwardProtocolV1Name)
	}
	t.connection = connection
	return nil
}

func (t *tunnel) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed = true; t.connection != nil {
		_ = t.connection.Close()
	}
}

type stream struct {
	httpstream.Stream
	location Location
	remove   func()
	// errorRead is closed when the error stream has ended.
	errorRead chan struct{}
	remoteErr error
}

const maxErrorBytes = 4 << 10

func (s *stream) readError(problems io.Reader) {
	text, err := io.ReadAll(io.LimitReader(problems, maxErrorBytes))
	switch {
	case len(text) > 0:
		s.remoteErr = errors.New(string(text))
	case err != nil && !errors.Is(err, io.EOF):
		s.remoteErr = err
	}
	close(s.errorRead)
	if s.remoteErr != nil && s.Stream != nil {
		_ = s.Reset() // It unblocks readers and writers.
	}
}

// Read reads from the pod. If the connection fails, it returns the error of the server.
func (s *stream) Read(into []byte) (int, error) {
	n, err := s.Stream.Read(into)
	if n > 0 || err == nil {
		return n, err
	}
	return 0, s.at(s.streamError(err))
}

// Write writes to the pod. If the connection fails, it returns the error of the server.
func (s *stream) Write(from []byte) (int, error) {
	n, err := s.Stream.Write(from)
	if err != nil {
		err = s.at(s.streamError(err))
	}
	return n, err
}

// at says where an error happened. Readers need to know the end as it is.
func (s *stream) at(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("port-forward to pod %s: %w", s.location, err)
}

// streamError returns the error of the server, or end if there is none.
func (s *stream) streamError(end error) error {
	select {
	case <-s.errorRead:
		if s.remoteErr != nil {
			return s.remoteErr
		}
	case <-time.After(streamErrorTimeout):
	}
	return end
}

// streamErrorTimeout is how long to wait for the error of the server, which arrives on another stream.
const streamErrorTimeout = time.Second

func (s *stream) Close() error {
	err := s.Reset()
	s.remove()
	return err
}

func (s *stream) LocalAddr() net.Addr { return address(s.location) }

func (s *stream) RemoteAddr() net.Addr { return address(s.location) }

// SetDeadline does nothing: requests have contexts.
func (*stream) SetDeadline(time.Time) error { return nil }

func (*stream) SetReadDeadline(time.Time) error { return nil }

func (*stream) SetWriteDeadline(time.Time) error { return nil }

type address Location

func (address) Network() string { return "port-forward" }

func (a address) String() string { return Location(a).String() }

// Package loadbalancer does on one machine what a Service does in a cluster: it forwards
// connections to replicas. The end-to-end tests and the soak reach Setpoint's webhooks by
// it; no product code may.
package loadbalancer

import (
	"io"
	"net"
	"sync"
	"testing"
)

// LoadBalancer leads each connection to any of its replicas that accepts it.
type LoadBalancer struct {
	listener net.Listener

	mu       sync.Mutex
	backends []string
	next     int
}

// New starts a load balancer on a free port of loopback until the end of the test.
func New(t *testing.T) *LoadBalancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	f := &LoadBalancer{listener: listener}
	go f.serve()
	return f
}

// Port is where it listens.
func (f *LoadBalancer) Port() int { return f.listener.Addr().(*net.TCPAddr).Port }

// SetBackends has connections lead to these addresses.
func (f *LoadBalancer) SetBackends(replicas ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends = replicas
}

// serve ends when the listener is closed.
func (f *LoadBalancer) serve() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		go f.connect(near)
	}
}

func (f *LoadBalancer) connect(near net.Conn) {
	defer near.Close()
	far := f.dial()
	if far == nil {
		return
	}
	go func() {
		defer near.Close()
		_, _ = io.Copy(near, far) // either side may close it
	}()
	_, _ = io.Copy(far, near)
	_ = far.Close()
}

// dial is a connection to the next replica that is there; nil if none is.
func (f *LoadBalancer) dial() net.Conn {
	f.mu.Lock()
	replicas, first := f.backends, f.next
	f.next++
	f.mu.Unlock()
	for i := range replicas {
		if far, err := net.Dial("tcp", replicas[(first+i)%len(replicas)]); err == nil {
			return far
		}
	}
	return nil
}

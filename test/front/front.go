// Package front is what a Service is in a cluster, on one machine: an address behind which
// there are replicas. The end-to-end tests and the soak reach Setpoint's webhooks by it;
// no product code may.
package front

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Front leads each connection to any of its replicas that accepts it.
type Front struct {
	listener net.Listener

	mu       sync.Mutex
	replicas []string
	next     int
}

// New opens a front on a free port of loopback until the end of the test.
func New(t *testing.T) *Front {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	f := &Front{listener: listener}
	go f.serve()
	return f
}

// Port is where it listens.
func (f *Front) Port() int { return f.listener.Addr().(*net.TCPAddr).Port }

// Lead has connections lead to these addresses.
func (f *Front) Lead(replicas ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = replicas
}

// serve ends when the listener is closed.
func (f *Front) serve() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		go f.connect(near)
	}
}

func (f *Front) connect(near net.Conn) {
	defer near.Close()
	far := f.dial()
	if far == nil {
		return
	}
	go func() {
		defer near.Close()
		_, _ = io.Copy(near, far) // it ended, whoever ended it
	}()
	_, _ = io.Copy(far, near)
	_ = far.Close()
}

// dial is a connection to the next replica that is there; nil if none is.
func (f *Front) dial() net.Conn {
	f.mu.Lock()
	replicas, first := f.replicas, f.next
	f.next++
	f.mu.Unlock()
	for i := range replicas {
		if far, err := net.Dial("tcp", replicas[(first+i)%len(replicas)]); err == nil {
			return far
		}
	}
	return nil
}

package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// front is what a Service is in a cluster: an address behind which there are
// replicas. A connection comes to any of them that takes it.
type front struct {
	listener net.Listener

	mu       sync.Mutex
	replicas []string
	next     int
}

func newFront(t *testing.T) *front {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	f := &front{listener: listener}
	go f.serve()
	return f
}

func (f *front) port() int { return f.listener.Addr().(*net.TCPAddr).Port }

// lead has connections lead to these replicas.
func (f *front) lead(replicas ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = replicas
}

// serve ends when the listener is closed.
func (f *front) serve() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		go f.connect(near)
	}
}

func (f *front) connect(near net.Conn) {
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
func (f *front) dial() net.Conn {
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

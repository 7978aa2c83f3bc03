package manager

import (
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/call/webhook"
)

// endpoints is what is known of the addresses of hooks: the processes that are known not
// to run, and the calls that got no connection.
type endpoints struct {
	mu sync.Mutex
	// down is why nothing answers at an address, as HookDown said.
	down map[string]string
	// unconnected are the errors of the latest calls, where they got no connection.
	unconnected map[endpoint]string
}

// endpoint is an address as one controller calls it: with its own proxy and credentials.
type endpoint struct{ controller, address string }

func newEndpoints() *endpoints {
	return &endpoints{down: map[string]string{}, unconnected: map[endpoint]string{}}
}

// setDown notes that nothing answers at an address, and why.
func (e *endpoints) setDown(address string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down[address] = strings.Join(strings.Fields(err.Error()), " ")
}

// setUp notes that the address answers again.
func (e *endpoints) setUp(address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.down, address)
}

// recordCall notes what a call says of its address. One that was connected and got no
// response says nothing.
func (e *endpoints) recordCall(controller, address string, call webhook.CallResult) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch at := (endpoint{controller, address}); {
	case webhook.IsConnectError(call.Err):
		e.unconnected[at] = strings.Join(strings.Fields(call.Err.Error()), " ")
	case call.Code != 0:
		delete(e.unconnected, at)
	}
}

// remove drops what is known of a controller that is gone.
func (e *endpoints) remove(controller string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for at := range e.unconnected {
		if at.controller == controller {
			delete(e.unconnected, at)
		}
	}
}

// failures looks for the first of a controller's addresses at which nothing answers, and for
// the first that its latest call could not connect to. It returns why, or nothing.
func (e *endpoints) failures(controller string, addresses []string) (down, unconnected string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, full := range slices.Backward(addresses) {
		for address, why := range e.down {
			if sameHost(full, address) {
				down = why
			}
		}
		if why, known := e.unconnected[endpoint{controller, full}]; known {
			unconnected = why
		}
	}
	return down, unconnected
}

// sameHost compares a host and port with an address that may have no port.
func sameHost(full, address string) bool {
	host, port, err := net.SplitHostPort(full)
	if err != nil {
		return full == address
	}
	host = strings.TrimSuffix(host, ".") // A name that DNS is not to search for.
	return host == address || net.JoinHostPort(host, port) == address
}

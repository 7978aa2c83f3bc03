package calls

import (
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
)

// Endpoints tracks hook addresses: the processes that are down, and calls that could not connect.
type Endpoints struct {
	mu sync.Mutex
	// down is why the process at an address is down, from HookDown.
	down map[string]string
	// unconnected are the errors of the latest calls that could not connect.
	unconnected map[endpoint]string
}

// endpoint is an address as one controller calls it, with its own proxy and credentials.
type endpoint struct{ controller, address string }

// NewEndpoints returns Endpoints of which all can be reached.
func NewEndpoints() *Endpoints {
	return &Endpoints{down: map[string]string{}, unconnected: map[endpoint]string{}}
}

// SetDown records why the process at an address is down.
func (e *Endpoints) SetDown(address string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down[address] = flat(err)
}

// flat returns the text of an error in one line. Processes end theirs with several.
func flat(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// SetUp records that the process at an address is up.
func (e *Endpoints) SetUp(address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.down, address)
}

// RecordCall records whether a call connected. A timeout after connecting changes nothing.
func (e *Endpoints) RecordCall(controller, address string, call call.Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch at := (endpoint{controller, address}); {
	case call.Code != 0:
		delete(e.unconnected, at)
	case webhook.IsConnectError(call.Err):
		e.unconnected[at] = flat(call.Err)
	}
}

// Remove removes a controller.
func (e *Endpoints) Remove(controller string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.unconnected, func(at endpoint, _ string) bool { return at.controller == controller })
}

// Failures returns why the process at one of the addresses is down, and the error of a
// latest call that could not connect; "" for none.
func (e *Endpoints) Failures(controller string, addresses []string) (down, unconnected string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, full := range slices.Backward(addresses) {
		for address, why := range e.down {
			if SameHost(full, address) {
				down = why
			}
		}
		if why, known := e.unconnected[endpoint{controller, full}]; known {
			unconnected = why
		}
	}
	return down, unconnected
}

// SameHost compares a host and port with an address that may have no port.
func SameHost(full, address string) bool {
	host, port, err := net.SplitHostPort(full)
	if err != nil {
		return full == address
	}
	host = strings.TrimSuffix(host, ".") // The dot marks a fully qualified name.
	return host == address || net.JoinHostPort(host, port) == address
}

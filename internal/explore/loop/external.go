package loop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// System is a system outside of the cluster, as a fake that hooks call.
type System interface {
	// Snapshot returns the state as JSON.
	Snapshot() ([]byte, error)
	// Restore sets the state to that of a snapshot.
	Restore(snapshot []byte) error
}

// External makes the state of a system part of what the API server stores, as an object of a kind of its own: a call
// of a hook reads it before, and writes it after the call if it has changed. So a call is one step of a search, which
// may fail as any request may. It is safe for concurrent use, and shared by the processes of a search.
type External struct {
	// mu is held while the system has a state.
	mu      sync.Mutex
	system  System
	initial []byte
}

// ExternalKind is the kind of the object with the state of an External.
var ExternalKind = object.Resource{Group: "test.setpoint.dev", Version: "v1alpha1", Kind: "External", Plural: "externals", Custom: true}

// externalName is the name of that object.
const externalName = "systems"

// ExternalRef names that object.
func ExternalRef() object.Ref { return ExternalKind.Ref("", externalName).Identity() }

// NewExternal returns the system in the state that it has now.
func NewExternal(system System) (*External, error) {
	snapshot, err := system.Snapshot()
	if err == nil {
		snapshot, err = canonical(snapshot)
	}
	if err != nil {
		return nil, fmt.Errorf("the state of the external system: %w", err)
	}
	return &External{system: system, initial: snapshot}, nil
}

// canonical returns equal texts for equal values.
func canonical(snapshot []byte) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(snapshot))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// Object returns the object with the initial state.
func (e *External) Object() (*object.Object, error) {
	return object.Parse(externalObject(e.initial, ""))
}

func externalObject(state []byte, version string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"resourceVersion":%q},"state":%s}`,
		ExternalKind.APIVersion(), ExternalKind.Kind, externalName, version, state)
}

// systemError is an error of the fake, not of the hook that calls it.
type systemError struct{ error }

// In calls a function while the system has a state. It returns the state after that.
func (e *External) In(state []byte, do func()) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.system.Restore(state); err != nil {
		return nil, systemError{fmt.Errorf("restore the external system: %w", err)}
	}
	do()
	after, err := e.system.Snapshot()
	if err == nil {
		after, err = canonical(after)
	}
	if err != nil {
		return nil, systemError{fmt.Errorf("the state of the external system: %w", err)}
	}
	return after, nil
}

// externalClient reads and writes the state by requests of the current run.
type externalClient struct {
	*External

	transport *transport
}

// version is a stored state.
type version struct {
	state  []byte
	number string
}

func (e *externalClient) read() (version, error) {
	response, err := e.do(http.MethodGet, nil)
	if err != nil {
		return version{}, err
	}
	var stored struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		State json.RawMessage `json:"state"`
	}
	if response.Code != http.StatusOK || json.Unmarshal(response.Body, &stored) != nil {
		return version{}, fmt.Errorf("read the external system: %d %s", response.Code, response.Body)
	}
	state, err := canonical(stored.State)
	return version{state, stored.Metadata.ResourceVersion}, err
}

// errExternalChanged means that another run has called the system since it was read.
var errExternalChanged = errors.New("the external system has changed")

// write stores the state after a call, unless it is as before.
func (e *externalClient) write(before version, after []byte) error {
	if bytes.Equal(before.state, after) {
		return nil
	}
	response, err := e.do(http.MethodPut, externalObject(after, before.number))
	switch {
	case err != nil:
		return fmt.Errorf("call the external system: %w", err)
	case response.Code == http.StatusConflict:
		return errExternalChanged
	case response.Code >= http.StatusBadRequest:
		return fmt.Errorf("call the external system: %d %s", response.Code, response.Body)
	}
	return nil
}

func (e *externalClient) do(method string, body []byte) (Response, error) {
	target := ExternalKind.Path("", externalName)
	return e.transport.send(Request{Method: method, Target: target, ContentType: "application/json", Body: body})
}

package hooktest

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/setpoint-dev/setpoint/hook"
)

// HTTPHandler is HTTPHook for handlers. It returns permanent errors in the response
// body, others as HTTPHook does.
func HTTPHandler(logic hook.Handler) http.Handler {
	return serve(func(r *http.Request) (any, error) {
		n, err := readHandlerRequest(r)
		if err != nil {
			return nil, err
		}
		response, err := logic.Handle(r.Context(), n)
		if terminal, ok := errors.AsType[*hook.TerminalError](err); ok {
			return map[string]any{"error": map[string]any{"message": terminal.Error(), "permanent": true}}, nil
		}
		if err != nil {
			return nil, err
		}
		return newWireHandlerResponse(response), nil
	})
}

type wireHandlerRequest struct {
	Controller    json.RawMessage
	Handler       string
	Reason        hook.Reason
	Object        json.RawMessage
	PreviousState *json.RawMessage
	Changes       []wireFieldChange
	Owned         groups
	Attempt       *int
	Deleted       *bool
	DryRun        *bool
}

type wireFieldChange struct {
	Path string          `json:"path"`
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`
}

func readHandlerRequest(r *http.Request) (*hook.HandlerRequest, error) {
	var wire wireHandlerRequest
	if err := read(r, &wire); err != nil {
		return nil, err
	}
	if wire.Changes == nil || wire.Owned == nil || wire.Attempt == nil || wire.Deleted == nil || wire.DryRun == nil {
		return nil, errors.New("a field is missing")
	}
	namespace, name, err := nameOf(wire.Object)
	if err != nil {
		return nil, err
	}
	n := &hook.HandlerRequest{
		Controller: wire.Controller, Handler: wire.Handler, Reason: wire.Reason, Object: wire.Object,
		Namespace: namespace, Name: name,
		Owned: readGroups(wire.Owned), Attempt: *wire.Attempt, Deleted: *wire.Deleted, DryRun: *wire.DryRun,
	}
	for _, change := range wire.Changes {
		n.Changes = append(n.Changes, hook.FieldChange(change))
	}
	if wire.PreviousState != nil {
		n.PreviousState = *wire.PreviousState
	}
	return n, nil
}

type wireHandlerResponse struct {
	wireReport

	Patch             json.RawMessage `json:"patch,omitempty"`
	Apply             []any           `json:"apply,omitempty"`
	Delete            []wireDeletion  `json:"delete,omitempty"`
	RetryAfterSeconds float64         `json:"retryAfterSeconds,omitempty"`
}

type wireUnowned struct {
	Object  json.RawMessage `json:"object"`
	Unowned bool            `json:"unowned"`
}

type wireDeletion struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	Selector   string `json:"selector,omitempty"`
	Evict      bool   `json:"evict,omitempty"`
}

func newWireHandlerResponse(a *hook.HandlerResponse) wireHandlerResponse {
	wire := wireHandlerResponse{
		wireReport: newWireReport(a.Status, a.Message, a.Events, a.Conditions),
		Patch:      a.Patch, RetryAfterSeconds: a.RetryAfter.Seconds(),
	}
	for _, one := range a.Apply {
		if one.Unowned {
			wire.Apply = append(wire.Apply, wireUnowned(one))
			continue
		}
		wire.Apply = append(wire.Apply, one.Object)
	}
	for _, d := range a.Delete {
		wire.Delete = append(wire.Delete, wireDeletion(d))
	}
	return wire
}

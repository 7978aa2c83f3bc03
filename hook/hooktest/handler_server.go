package hooktest

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

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
	Changes       []hook.FieldChange
	Owned         groups
	Attempt       *int
	FirstAttempt  time.Time
	Progress      json.RawMessage
	Deleted       *bool
	Event         hook.EventType
	Daemon        hook.DaemonCall
	DryRun        *bool
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
		Changes: wire.Changes, Owned: readGroups(wire.Owned), Attempt: *wire.Attempt, Deleted: *wire.Deleted, DryRun: *wire.DryRun,
		FirstAttempt: wire.FirstAttempt, Event: wire.Event, Daemon: wire.Daemon,
	}
	if string(wire.Progress) != "null" {
		n.Progress = wire.Progress
	}
	if wire.PreviousState != nil {
		n.PreviousState = *wire.PreviousState
	}
	return n, nil
}

// wireHandlerResponse adds what a HandlerResponse has no JSON for.
type wireHandlerResponse struct {
	*hook.HandlerResponse

	Apply             []any   `json:"apply,omitempty"`
	RetryAfterSeconds float64 `json:"retryAfterSeconds,omitempty"`
}

func newWireHandlerResponse(a *hook.HandlerResponse) wireHandlerResponse {
	wire := wireHandlerResponse{HandlerResponse: a, RetryAfterSeconds: a.RetryAfter.Seconds()}
	for _, one := range a.Apply {
		if one.Unowned {
			wire.Apply = append(wire.Apply, one)
		} else {
			wire.Apply = append(wire.Apply, one.Object)
		}
	}
	return wire
}

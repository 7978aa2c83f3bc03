package compile

import (
	"encoding/json"
	"slices"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
)

// backendHooks are the webhooks of the process of handlers that no handler has; nil for none.
type backendHooks struct{ index, notifications *hookConfig }

func readBackend(spec *api.HandlerControllerSpec) (b backendHooks, err error) {
	if spec.Index != nil {
		if b.index, err = readBackendWebhook("spec.index", spec.Index.Webhook); err != nil {
			return b, err
		}
	}
	if spec.Notifications != nil {
		if b.notifications, err = readBackendWebhook("spec.notifications", spec.Notifications.Webhook); err != nil {
			return b, err
		}
	}
	return b, b.all().applyEndpoints(spec.EndpointConfigs)
}

// readBackendWebhook reads what only a process can be.
func readBackendWebhook(field string, declared *api.Webhook) (*hookConfig, error) {
	if declared == nil {
		return nil, invalid("%s.webhook: required", field)
	}
	return readUncached(callOf{field: field}, &api.HookCall{Webhook: declared})
}

func (b backendHooks) all() hookConfigs {
	return slices.DeleteFunc(hookConfigs{b.index, b.notifications}, func(one *hookConfig) bool { return one == nil })
}

// openBackend returns the process of the handlers. Controllers with the same URL and credentials
// of notifications have one process.
func (c *connection) openBackend(b backendHooks) (handler.Backend, error) {
	backend := handler.Backend{ID: c.name}
	if b.index != nil {
		opened, err := c.open(b.index)
		if err != nil {
			return backend, err
		}
		backend.Index = opened.Index
	}
	if b.notifications != nil {
		opened, err := c.open(b.notifications)
		if err != nil {
			return backend, err
		}
		backend.Notifications = opened.Notifications
		backend.ID = c.streamID(b.notifications)
	}
	return backend, nil
}

// streamID identifies a stream: its URL, and what the connection needs.
func (c *connection) streamID(h *hookConfig) string {
	id, err := json.Marshal(map[string]any{"url": h.webhook.url, "credentials": h.webhook.credentials, "account": c.account})
	if err != nil {
		return c.name // Then the process is this controller's alone.
	}
	return string(id)
}

package operator

import (
	"context"
	"errors"
	"sync"
)

// health is the last known health of the process.
type health struct {
	mu   sync.Mutex
	body []byte
	err  error
}

func (h *health) set(body []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.body, h.err = body, err
}

// check returns what the process says of itself, and why it is unhealthy.
func (h *health) check() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.body, h.err
}

// checkHealth requests the health of the process.
func (o *Operator) checkHealth(ctx context.Context) ([]byte, error) {
	if o.declaration.Health == "" {
		return nil, nil
	}
	body, err := o.endpoint.get(ctx, o.declaration.Health, checkTimeout, maxHealthBytes)
	if err != nil && ctx.Err() == nil {
		return nil, errors.New("the operator does not respond: " + err.Error())
	}
	return body, nil
}

package operator

import (
	"context"
	"errors"
)

// health is what the process says of itself, and why it is unhealthy.
type health struct {
	body []byte
	err  error
}

// lastHealth returns the last known health of the process.
func (o *Operator) lastHealth() ([]byte, error) {
	if h := o.health.Load(); h != nil {
		return h.body, h.err
	}
	return nil, nil
}

// checkHealth requests the health of the process.
func (o *Operator) checkHealth(ctx context.Context) {
	if o.declaration.Health == "" {
		return
	}
	body, err := o.endpoint.get(ctx, o.declaration.Health, checkTimeout, maxHealthBytes)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		body, err = nil, errors.New("the operator does not respond: "+err.Error())
	}
	o.health.Store(&health{body, err})
}

package compile

import (
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/engine"
)

// connection makes the webhooks of one controller.
type connection struct {
	name string
	form hook.Form
	// childless says that the controller declares no children.
	childless bool
	env       Environment
	// ends lets go of what was opened.
	ends []func()
}

// connect gives the programs their hooks.
func (c *connection) connect(h *hooks, programs []engine.Program) error {
	made := map[*hooked]*webhook.Webhook{}
	for _, one := range h.all() {
		hooked, err := c.open(one)
		if err != nil {
			c.release()
			return err
		}
		made[one] = hooked
	}
	for i := range programs {
		p := &programs[i]
		if h.sync != nil {
			p.Sync = made[h.sync]
		}
		if h.finalize != nil {
			p.Finalize = made[h.finalize]
		}
		if h.customize != nil {
			p.Customize, p.Scope.Version = made[h.customize], h.customize.version
		}
	}
	return nil
}

func (c *connection) open(h *hooked) (*webhook.Webhook, error) {
	config := webhook.Config{
		URL:         h.url,
		Wire:        hook.Wire{Version: h.version, Form: c.form, Decoding: h.decoding, Childless: c.childless},
		Timeout:     h.timeout,
		ETag:        h.etag,
		Concurrency: c.env.Workers,
		UserAgent:   c.env.UserAgent,
		Limits:      c.env.Limits,
		Connections: c.env.Connections,
		Dial:        c.env.Dial,
		Routed:      c.env.Routed,
	}
	if c.env.Called != nil {
		address := addressOf(h.url)
		config.Observe = func(e webhook.Exchange) { c.env.Called(c.name, address, e) }
	}
	if !h.settings.IsZero() {
		source := credential.Open(c.env.Store, h.settings, c.renewed)
		config.Credentials = source.Current
		c.ends = append(c.ends, source.Close)
	}
	opened, err := webhook.New(config)
	if err != nil {
		return nil, invalid("%s: %w", h.field, err)
	}
	c.ends = append(c.ends, opened.Close)
	return opened, nil
}

func (c *connection) renewed() {
	if c.env.Renewed != nil {
		c.env.Renewed(c.name)
	}
}

func (c *connection) release() {
	for _, end := range c.ends {
		end()
	}
}

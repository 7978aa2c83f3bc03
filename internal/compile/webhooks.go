package compile

import (
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/identity"
)

// connection creates the webhooks of one controller.
type connection struct {
	name string
	// account reads the Secrets and ConfigMaps of connections.
	account identity.Account
	form    hook.ControllerType
	// childless means that the controller has no children.
	childless bool
	env       Environment
	// closers close what was opened.
	closers []func()
}

// connect sets the hooks of the programs.
func (c *connection) connect(h *hooks, programs []compose.Program) error {
	configs := h.all()
	opened, err := c.openAll(configs)
	if err != nil {
		return err
	}
	made := map[*hookConfig]*webhook.Webhook{}
	for i, config := range configs {
		made[config] = opened[i]
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
			p.Customize, p.Scope.Version = made[h.customize], h.customize.Wire.Version
		}
	}
	return nil
}

// openAll returns a webhook for each hook.
func (c *connection) openAll(configs hookConfigs) ([]*webhook.Webhook, error) {
	all := make([]*webhook.Webhook, len(configs))
	for i, config := range configs {
		opened, err := c.open(config)
		if err != nil {
			c.release()
			return nil, err
		}
		all[i] = opened
	}
	return all, nil
}

func (c *connection) open(h *hookConfig) (*webhook.Webhook, error) {
	config := h.Config
	config.Wire.ControllerType, config.Wire.NoChildren = c.form, c.childless
	config.Concurrency, config.Limits, config.ConnectionLimiter = c.env.Workers, c.env.Limits, c.env.Connections
	config.UserAgent, config.Dial, config.Routed = c.env.UserAgent, c.env.Dial, c.env.Routed
	if c.env.ObserveCall != nil {
		address := addressOf(h.URL)
		config.Observe = func(e call.Result) { c.env.ObserveCall(c.name, address, e) }
	}
	if c.account.PerNamespace() && h.credentials.HasReferences() {
		return nil, invalid("%s: refers to a Secret or ConfigMap, which needs spec.serviceAccountNamespace: "+
			"without it, each namespace has a ServiceAccount %s of its own", h.field, c.account.Name)
	}
	if !h.credentials.IsZero() && c.env.Store != nil {
		source := credential.Open(c.env.Store, h.credentials, c.account.UserFor(""), c.credentialsRenewed)
		config.Credentials = source.Current
		c.closers = append(c.closers, source.Close)
	}
	opened, err := webhook.New(config)
	if err != nil {
		return nil, invalid("%s: %w", h.field, err)
	}
	c.closers = append(c.closers, opened.Close)
	return opened, nil
}

func (c *connection) credentialsRenewed() {
	if c.env.CredentialsRenewed != nil {
		c.env.CredentialsRenewed(c.name)
	}
}

func (c *connection) release() {
	for _, closeOne := range c.closers {
		closeOne()
	}
}

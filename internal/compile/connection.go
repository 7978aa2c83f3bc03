package compile

import (
	"cmp"
	"context"
	"errors"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// connection opens what calls the hooks of one controller.
type connection struct {
	name string
	// object is the controller.
	object object.Ref
	// account reads the Secrets and ConfigMaps of connections and code.
	account identity.Account
	form    hook.ControllerType
	// childless means that the controller has no children.
	childless bool
	// reviews means that the controller is an AdmissionController.
	reviews bool
	env     Environment
	// inline is the code of inline hooks; nil for a controller that never runs.
	inline *inlineCode
	// closers close what was opened.
	closers []func()
}

func (c *connection) connect(ctx context.Context, h *hooks) (controller.Logic, error) {
	configs := h.all()
	opened, err := c.openAll(ctx, configs)
	if err != nil {
		return controller.Logic{}, err
	}
	var l controller.Logic
	for i, config := range configs {
		switch config {
		case h.sync:
			l.Sync = opened[i]
		case h.finalize:
			l.Finalize = opened[i]
		case h.customize:
			l.Customize = opened[i]
		}
	}
	return l, nil
}

func (c *connection) openAll(ctx context.Context, configs hookConfigs) (all []*call.Hook, err error) {
	if c.inline, err = c.compileCode(ctx, configs); err != nil {
		return nil, err
	}
	c.closers = append(c.closers, c.inline.close)
	for _, config := range configs {
		opened, err := c.open(config)
		if err != nil {
			c.close()
			return nil, err
		}
		all = append(all, opened)
	}
	return all, nil
}

func (c *connection) open(h *hookConfig) (*call.Hook, error) {
	transport, err := c.transport(h)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, transport.Close)
	return call.New(call.Config{Transport: transport, Wire: c.wireOf(h), Limits: c.env.Limits, Observe: c.observer(h)}), nil
}

func (c *connection) transport(h *hookConfig) (call.Transport, error) {
	switch {
	case h.webhook != nil:
		return c.webhook(h)
	case h.inline != nil:
		return c.inline.transport(h), nil
	case c.env.Store == nil || c.env.checksCode:
		return neverCalled{}, nil
	case c.env.Exec == nil:
		return nil, invalid("%s: this program does not run exec hooks; setpoint dev does, and setpoint run with --exec-hooks=DIR", h.field)
	}
	transport, err := c.env.Exec(call.Command{Controller: c.name, Share: c.share(), Args: h.exec, Timeout: h.timeout})
	if err != nil {
		return nil, invalid("%s.command: %w", h.field, err)
	}
	return transport, nil
}

func (c *connection) webhook(h *hookConfig) (call.Transport, error) {
	config := webhook.Config{
		URL: h.webhook.url, ETag: h.webhook.etag, Timeout: h.timeout, Concurrency: c.env.Workers,
		ConnectionLimiter: c.env.Connections, UserAgent: c.env.UserAgent, Dial: c.env.Dial, Routed: c.env.Routed,
	}
	if c.env.Authorization != nil {
		config.Authorization = c.env.Authorization(h.webhook.url)
	}
	credentials := h.webhook.credentials
	if c.account.PerNamespace() && credentials.HasReferences() {
		return nil, c.perNamespaceError(h.field)
	}
	if !credentials.IsZero() && c.env.Store != nil && !c.env.checksCode {
		source := credential.Open(c.env.Store, credentials, c.account.UserFor(""), c.credentialsRenewed)
		config.Credentials = source.Current
		c.closers = append(c.closers, source.Close)
	}
	transport, err := webhook.New(config)
	if err != nil {
		return nil, invalid("%s: %w", h.field, err)
	}
	return transport, nil
}

// share is the controller's part of the processes of hooks.
func (c *connection) share() call.Share {
	return call.Share{Owner: cmp.Or(c.account.String(), c.name), Reviews: c.reviews}
}

// wireOf returns the wire form of a hook of this controller.
func (c *connection) wireOf(h *hookConfig) codec.Wire {
	w := h.wire
	w.ControllerType, w.NoChildren = c.form, c.childless
	return w
}

// observer reports the calls of a hook; nil without an observer.
func (c *connection) observer(h *hookConfig) func(call.Result) {
	if c.env.ObserveCall == nil {
		return nil
	}
	address := h.address()
	return func(result call.Result) { c.env.ObserveCall(c.name, address, result) }
}

// compiled returns what controllers of all kinds have, whose hooks are opened.
func (c *connection) compiled(o *object.Object, configs hookConfigs, suspended bool) *Compiled {
	code := Code{ConfigMaps: configs.configMaps()}
	if c.inline != nil {
		code.Digest, code.Outdated = c.inline.digest, c.inline.outdated
	}
	paused := plan.Annotation(o, api.AnnotationPaused) == "true"
	return &Compiled{
		HookAddresses: configs.addresses(), Credentials: configs.credentials(), Code: code,
		Account: c.account, Suspended: suspended || paused, Notes: configs.endpointNotes(o), Release: c.close,
	}
}

// perNamespaceError refuses a reference that no single ServiceAccount reads.
func (c *connection) perNamespaceError(field string) error {
	return invalid("%s: refers to a Secret or ConfigMap, which needs spec.serviceAccountNamespace: "+
		"without it, each namespace has a ServiceAccount %s of its own", field, c.account.Name)
}

func (c *connection) credentialsRenewed() {
	if c.env.CredentialsRenewed != nil {
		c.env.CredentialsRenewed(c.name)
	}
}

func (c *connection) close() {
	for _, closeOne := range c.closers {
		closeOne()
	}
}

// neverCalled is the transport of hooks of a controller that never runs.
type neverCalled struct{}

var errNeverCalled = errors.New("this controller was compiled to be read, not to be run")

func (neverCalled) Exchange(context.Context, *call.Request, *call.Result) (call.Response, error) {
	return call.Response{}, errNeverCalled
}
func (neverCalled) Wrap(_ call.HookType, err error) error { return err }
func (neverCalled) Timeout() time.Duration                { return 0 }
func (neverCalled) Close()                                {}

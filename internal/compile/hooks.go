package compile

import (
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/engine"
)

// hooks are those of a controller. Sync is always there.
type hooks struct{ sync, finalize, customize *hooked }

// hooked is where and how one hook is asked.
type hooked struct {
	// field is that of its webhook.
	field    string
	version  hook.Version
	decoding hook.Decoding
	url      string
	timeout  time.Duration
	etag     webhook.ETag
	settings credential.Spec
}

// endpoint is the settings for a host, and the field where they are.
type endpoint struct {
	field, host string
	settings    credential.Spec
}

// all are the hooks there are.
func (h *hooks) all() []*hooked {
	return slices.DeleteFunc([]*hooked{h.sync, h.finalize, h.customize}, func(one *hooked) bool { return one == nil })
}

// addresses are the hosts and ports behind which the hooks are, each once.
func (h *hooks) addresses() []string {
	var all []string
	for _, one := range h.all() {
		all = append(all, addressOf(one.url))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// required says that a controller cannot do without its sync hook.
func required(field string) error {
	return invalid("%s: required; it says what should be of objects that are neither being deleted nor leaving", field)
}

// settle gives each hook the settings of its endpoint, unless it has some of its
// own, and checks them.
func (h *hooks) settle(endpoints []endpoint) error {
	for _, e := range endpoints {
		if err := e.settings.Validate(); err != nil {
			return invalid("%s.%w", e.field, err)
		}
	}
	for _, one := range h.all() {
		if err := one.settings.Validate(); err != nil {
			return invalid("%s.%w", one.field, err)
		}
		i := slices.IndexFunc(endpoints, func(e endpoint) bool { return behind(one.url, e.host) })
		if i >= 0 && one.settings.IsZero() {
			one.settings = endpoints[i].settings
		}
	}
	return nil
}

// settingsOf turns the connection settings of either group into their neutral
// form, which has the same fields.
func settingsOf(declared any) credential.Spec {
	var s credential.Spec
	if text, err := json.Marshal(declared); err == nil {
		_ = json.Unmarshal(text, &s) // It was read from such a text.
	}
	return s
}

// behind says whether a URL leads to a host, or host:port. The default port is
// as good as none.
func behind(address, host string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	return fullHost(parsed.Host, parsed.Scheme) == fullHost(host, parsed.Scheme)
}

// addressOf is the host and port of a URL.
func addressOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return fullHost(parsed.Host, parsed.Scheme)
}

// fullHost is a host with its port, in lower case.
func fullHost(host, scheme string) string {
	host = strings.ToLower(host)
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), portOf(scheme))
}

func portOf(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// serviceURL is the address of a webhook given as a Service.
func serviceURL(protocol, name, namespace string, port int32, path string) string {
	host := name + "." + namespace
	if strconv.Itoa(int(port)) != portOf(protocol) {
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	return protocol + "://" + host + path
}

// connection makes the webhooks of one controller.
type connection struct {
	name string
	form hook.Form
	env  Environment
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
			return invalid("%s: %w", one.field, err)
		}
		made[one] = hooked
	}
	for i := range programs {
		p := &programs[i]
		p.Sync = made[h.sync]
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
		Wire:        hook.Wire{Version: h.version, Form: c.form, Decoding: h.decoding},
		Timeout:     h.timeout,
		ETag:        h.etag,
		Concurrency: c.env.Workers,
		UserAgent:   c.env.UserAgent,
		Dial:        c.env.Dial,
	}
	if c.env.Called != nil {
		config.Observe = func(e webhook.Exchange) { c.env.Called(c.name, e) }
	}
	if !h.settings.IsZero() {
		source := credential.Open(c.env.Store, h.settings, c.renewed)
		config.Credentials = source.Current
		c.ends = append(c.ends, source.Close)
	}
	opened, err := webhook.New(config)
	if err != nil {
		return nil, err
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

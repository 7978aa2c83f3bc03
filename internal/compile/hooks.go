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
)

// hooks are those of a controller. There is sync or finalize at least.
type hooks struct{ sync, finalize, customize *hookConfig }

// hookConfig is where and how one hook is asked.
type hookConfig struct {
	// field is that of its webhook.
	field       string
	version     hook.Version
	decoding    hook.Decoding
	url         string
	timeout     time.Duration
	etag        webhook.ETag
	credentials credential.Spec
}

// endpoint is the settings for a host, and the field where they are.
type endpoint struct {
	field, host string
	credentials credential.Spec
}

// all are the hooks there are.
func (h *hooks) all() hookConfigs {
	return slices.DeleteFunc(hookConfigs{h.sync, h.finalize, h.customize}, func(one *hookConfig) bool { return one == nil })
}

// hookConfigs are the hooks of a controller, whatever they are for.
type hookConfigs []*hookConfig

// addresses are the hosts and ports behind which the hooks are, each once.
func (all hookConfigs) addresses() []string {
	var some []string
	for _, one := range all {
		some = append(some, addressOf(one.url))
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// applyEndpoints gives each hook the settings of its endpoint, unless it has some of its
// own, and checks them.
func (all hookConfigs) applyEndpoints(endpoints []endpoint) error {
	for _, e := range endpoints {
		if err := e.credentials.Validate(); err != nil {
			return invalid("%s.%w", e.field, err)
		}
	}
	for _, one := range all {
		if err := one.credentials.Validate(); err != nil {
			return invalid("%s.%w", one.field, err)
		}
		i := slices.IndexFunc(endpoints, func(e endpoint) bool { return urlHasHost(one.url, e.host) })
		if i >= 0 && one.credentials.IsZero() {
			one.credentials = endpoints[i].credentials
		}
	}
	return nil
}

// credentialsOf turns the connection settings of either group into their neutral
// form, which has the same fields.
func credentialsOf(declared any) credential.Spec {
	var s credential.Spec
	if text, err := json.Marshal(declared); err == nil {
		_ = json.Unmarshal(text, &s) // It was read from such a text.
	}
	return s
}

// urlHasHost says whether a URL leads to a host, or host:port. The default port is
// as good as none.
func urlHasHost(address, host string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	return hostPort(parsed.Host, parsed.Scheme) == hostPort(host, parsed.Scheme)
}

// addressOf is the host and port of a URL.
func addressOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return hostPort(parsed.Host, parsed.Scheme)
}

// hostPort is a host with its port, in lower case.
func hostPort(host, scheme string) string {
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

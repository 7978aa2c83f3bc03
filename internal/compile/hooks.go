package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// callOf is a hook that is called: the path of its field, its name, and the default function of
// inline code.
type callOf struct{ field, name, function string }

// hooks are the hooks of a controller. It has sync or finalize.
type hooks struct{ sync, finalize, customize *hookConfig }

// hookConfig is how one hook is called: exactly one of webhook, inline and exec is set.
type hookConfig struct {
	// field is the path of that one in the spec. name is that of the hook: sync, or the name of a
	// handler or review.
	field, name string
	wire        codec.Wire
	timeout     time.Duration

	webhook *webhookConfig
	inline  *inlineConfig
	exec    []string
}

type webhookConfig struct {
	url         string
	etag        webhook.ETag
	credentials credential.Spec
}

// inlineConfig is the function of an inline hook.
type inlineConfig struct {
	code     *code
	function string
	// from is the hook whose code it is; empty for code of its own.
	from string
}

// code is what inline hooks call: files of the spec, or of a ConfigMap.
type code struct {
	// field is the path of the inline hook, or of configMapKeyRef.
	field    string
	language string
	// entry is the file with the functions.
	entry string
	// sources are the files by name, with entry, unless there is a configMap.
	sources   map[string]string
	configMap object.Ref
}

// readHooks reads the hooks of a controller; nil for those it has not.
func readHooks[H any](sync, finalize, customize *H, read func(callOf, *H) (*hookConfig, error)) (h hooks, err error) {
	for _, one := range []struct {
		name     string
		declared *H
		into     **hookConfig
	}{
		{"sync", sync, &h.sync}, {"finalize", finalize, &h.finalize}, {"customize", customize, &h.customize},
	} {
		if one.declared == nil {
			continue
		}
		if *one.into, err = read(callOf{"spec.hooks." + one.name, one.name, one.name}, one.declared); err != nil {
			return h, err
		}
	}
	return h, nil
}

// address names where the hook is in metrics and conditions.
func (h *hookConfig) address() string {
	switch {
	case h.inline != nil:
		return "inline"
	case h.exec != nil:
		return "exec:" + h.exec[0]
	}
	parsed, err := url.Parse(h.webhook.url)
	if err != nil {
		return ""
	}
	return hostPort(parsed.Host, parsed.Scheme)
}

// all returns the hooks that are set.
func (h *hooks) all() hookConfigs {
	return lists.Filter([]*hookConfig{h.sync, h.finalize, h.customize}, func(one *hookConfig) bool { return one != nil })
}

type hookConfigs []*hookConfig

func (all hookConfigs) webhooks() hookConfigs {
	return lists.Filter(all, func(one *hookConfig) bool { return one.webhook != nil })
}

// addresses returns where the hooks are, without duplicates.
func (all hookConfigs) addresses() []string {
	some := lists.Map(all, (*hookConfig).address)
	slices.Sort(some)
	return slices.Compact(some)
}

// credentials returns the Secrets and ConfigMaps that connections need.
func (all hookConfigs) credentials() []object.Ref {
	var some []object.Ref
	for _, one := range all.webhooks() {
		some = lists.Union(some, one.webhook.credentials.Objects())
	}
	return some
}

// applyEndpoints validates the credentials and gives hooks without credentials those of their
// endpoint.
func (all hookConfigs) applyEndpoints(endpoints []api.EndpointConfig) error {
	for i, e := range endpoints {
		if err := credential.Spec(e.ConnectionSettings).Validate(); err != nil {
			return invalid("%s.%w", index("spec.endpointConfigs", i), err)
		}
	}
	for _, one := range all.webhooks() {
		w := one.webhook
		if err := w.credentials.Validate(); err != nil {
			return invalid("%s.%w", one.field, err)
		}
		i := slices.IndexFunc(endpoints, func(e api.EndpointConfig) bool { return urlHasHost(w.url, e.Host) })
		if i >= 0 && w.credentials.IsZero() {
			w.credentials = credential.Spec(endpoints[i].ConnectionSettings)
		}
	}
	return nil
}

// endpointNotes names the endpointConfigs of a controller object whose host is that of no hook: their credentials are
// not sent.
func (all hookConfigs) endpointNotes(o *object.Object) []string {
	var declared []struct {
		Host string `json:"host"`
	}
	if field := o.Field("spec", "endpointConfigs"); field == nil || json.Unmarshal(field, &declared) != nil {
		return nil
	}
	var notes []string
	for i, e := range declared {
		used := func(one *hookConfig) bool { return urlHasHost(one.webhook.url, e.Host) }
		if !slices.ContainsFunc(all.webhooks(), used) {
			notes = append(notes, fmt.Sprintf("%s.host: %s is the host of no webhook of this controller, so nothing uses the entry; "+
				"their hosts are: %s",
				index("spec.endpointConfigs", i), e.Host, cmp.Or(strings.Join(all.webhooks().addresses(), ", "), "none")))
		}
	}
	return notes
}

// urlHasHost reports whether a URL has this host or host:port. The default port may be left out.
func urlHasHost(address, host string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	return hostPort(parsed.Host, parsed.Scheme) == hostPort(host, parsed.Scheme)
}

// hostPort returns a host with its port, in lower case.
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

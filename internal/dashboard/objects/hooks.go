package objects

import (
	"cmp"
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// webhookSpec is where a controller object, of any kind, says how to call a webhook.
type webhookSpec struct {
	URL     string
	Service *struct {
		Name, Namespace, Protocol string
		Port                      int
	}
}

// hostPort returns the host and port that a call connects to; "" for none.
func (w *webhookSpec) hostPort() string {
	if w == nil {
		return ""
	}
	at := &url.URL{}
	if s := w.Service; s != nil {
		at.Scheme, at.Host = s.Protocol, s.Name+"."+s.Namespace
		if s.Port != 0 {
			at.Host = net.JoinHostPort(at.Host, strconv.Itoa(s.Port))
		}
	} else if parsed, err := url.Parse(w.URL); err == nil {
		at = parsed
	}
	if at.Hostname() == "" {
		return ""
	}
	port := "80"
	if at.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port))
}

// hookAddresses returns the hosts and ports of the webhooks of the controller of a run, by the names of
// their calls; false if no object declares the controller.
func (req *Request) hookAddresses(run *inspect.Run) (addresses map[string]string, declared bool) {
	c := req.controllerOfRun(run)
	if c == nil || c.Declared == nil {
		return nil, false
	}
	kind, err := req.API.Kind(req.Context(), c.Declared.Resource())
	if err != nil {
		return nil, true
	}
	raw, err := req.API.Get(req.Context(), kind, c.Declared.Namespace, c.Declared.Name)
	if err != nil {
		return nil, true
	}
	return parseHookAddresses(raw), true
}

// parseHookAddresses reads the webhooks of a controller object.
func parseHookAddresses(raw json.RawMessage) map[string]string {
	type named struct {
		Name    string
		Webhook *webhookSpec
	}
	var declared struct {
		Spec struct {
			Hooks              map[string]named
			Handlers, Webhooks []named
		}
	}
	found := map[string]string{}
	if json.Unmarshal(raw, &declared) != nil {
		return found // It is no controller that we know.
	}
	for name, each := range declared.Spec.Hooks {
		found[name] = each.Webhook.hostPort()
	}
	for _, each := range slices.Concat(declared.Spec.Handlers, declared.Spec.Webhooks) {
		found[each.Name] = each.Webhook.hostPort()
	}
	return found
}

// controllerOfRun returns the controller of a run; nil if the user may not see it.
func (req *Request) controllerOfRun(run *inspect.Run) *inspect.Controller {
	source, err := req.Source(run.Process)
	if err != nil {
		return nil
	}
	all, err := req.Processes.Controllers(req.Context(), source)
	if err != nil {
		return nil
	}
	at := slices.IndexFunc(all, func(c inspect.Controller) bool { return c.Name == run.Controller && req.CanSee(&c) })
	if at < 0 {
		return nil
	}
	return &all[at]
}

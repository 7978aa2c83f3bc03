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
	URL, Path string
	Service   *struct {
		Name, Namespace, Protocol string
		Port                      int
	}
	CABundle, ClientTLS, Authorization, BasicAuth json.RawMessage
}

// secured reports whether the webhook has settings of its own for connections.
func (w *webhookSpec) secured() bool {
	return len(w.CABundle)+len(w.ClientTLS)+len(w.Authorization)+len(w.BasicAuth) > 0
}

// url returns the URL; "" for none. A password in it is masked. Other texts than web addresses could
// be options of a command.
func (w *webhookSpec) url() string {
	scheme, text := "", ""
	if w.Service != nil {
		scheme = cmp.Or(w.Service.Protocol, "http")
		text = scheme + "://" + net.JoinHostPort(w.Service.Name+"."+w.Service.Namespace, strconv.Itoa(w.port())) + w.Path
	} else if at, err := url.Parse(w.URL); err == nil {
		scheme, text = at.Scheme, at.Redacted()
	}
	if scheme != "http" && scheme != "https" {
		return ""
	}
	return text
}

// hostPort returns the host and port that a call connects to; "" for none.
func (w *webhookSpec) hostPort() string {
	at, err := url.Parse(w.url())
	if err != nil || at.Hostname() == "" {
		return ""
	}
	port := "80"
	if at.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port))
}

func (w *webhookSpec) port() int {
	if w.Service.Port == 0 && w.Service.Protocol == "https" {
		return 443
	}
	return cmp.Or(w.Service.Port, 80)
}

// hookURLs are the webhooks of a controller by the name of their calls. unknownReason is why they
// are unknown; "" if they are known.
type hookURLs struct {
	of            map[string]*webhookSpec
	unknownReason string
	// secured reports settings of connections for several webhooks.
	secured bool
}

// declared reports whether an object declares the controller.
func (h *hookURLs) declared() bool { return h.of != nil || h.unknownReason != "" }

// hookURLsOf returns the webhooks of the controller of a run, which the user may have to be allowed
// to get.
func (req *Request) hookURLsOf(run *inspect.Run) *hookURLs {
	c := req.controllerOfRun(run)
	if c == nil || c.Declared == nil {
		return &hookURLs{}
	}
	kind, err := req.API.Kind(req.Context(), c.Declared.Resource())
	var raw json.RawMessage
	if err == nil {
		raw, err = req.API.Get(req.Context(), kind, c.Declared.Namespace, c.Declared.Name)
	}
	if err != nil {
		return &hookURLs{unknownReason: "The address of the hook is in the controller, which cannot be read: " + err.Error() + "."}
	}
	return parseHookURLs(raw)
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

// parseHookURLs reads the webhooks of a controller object.
func parseHookURLs(raw json.RawMessage) *hookURLs {
	type named struct {
		Name    string
		Webhook *webhookSpec
	}
	var declared struct {
		Spec struct {
			Hooks              map[string]named
			Handlers, Webhooks []named
			EndpointConfigs    []json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &declared); err != nil {
		return &hookURLs{unknownReason: "The address of the hook is unknown."}
	}
	found := &hookURLs{of: map[string]*webhookSpec{}, secured: len(declared.Spec.EndpointConfigs) > 0}
	for name, each := range declared.Spec.Hooks {
		found.add(name, each.Webhook)
	}
	for _, each := range slices.Concat(declared.Spec.Handlers, declared.Spec.Webhooks) {
		found.add(each.Name, each.Webhook)
	}
	return found
}

func (h *hookURLs) add(name string, w *webhookSpec) {
	if w != nil {
		h.of[name] = w
	}
}

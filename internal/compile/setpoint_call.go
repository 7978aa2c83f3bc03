package compile

import (
	"cmp"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// readCall reads how a hook of setpoint.dev is called.
func readCall(of callOf, declared *api.HookCall) (*hookConfig, error) {
	ways := []bool{declared.Webhook != nil, declared.Inline != nil, declared.Exec != nil}
	if given := slices.DeleteFunc(ways, func(set bool) bool { return !set }); len(given) != 1 {
		return nil, invalid("%s: exactly one of webhook, inline and exec is required", of.field)
	}
	switch {
	case declared.Inline != nil:
		return readInline(of, declared.Inline)
	case declared.Exec != nil:
		return readExec(of, declared.Exec)
	}
	return readWebhook(of, declared.Webhook), nil
}

// readUncached is readCall for hooks whose responses belong to one request.
func readUncached(of callOf, declared *api.HookCall) (*hookConfig, error) {
	h, err := readCall(of, declared)
	if err == nil && h.webhook != nil && h.webhook.etag.Enabled {
		err = invalid("%s.etag: not supported here: a response belongs to one request", h.field)
	}
	return h, err
}

func readWebhook(of callOf, w *api.Webhook) *hookConfig {
	to := &webhookConfig{url: w.URL, credentials: credential.Spec(w.ConnectionSettings)}
	to.etag = webhook.ETag{Enabled: w.ETag.Enabled, Timeout: time.Duration(w.ETag.CacheTimeoutSeconds) * time.Second}
	if w.Service != nil {
		to.url = urlOfService(w.Service, w.Path)
	}
	return &hookConfig{
		field: of.field + ".webhook", name: of.name, webhook: to,
		wire: codec.Wire{Decoding: decodingOf(w.Decoding)}, timeout: cmp.Or(w.Timeout.Duration, api.DefaultTimeout),
	}
}

// urlOfService returns the URL of a path of a Service. The default port is left out.
func urlOfService(s *api.ServiceReference, path string) string {
	protocol, host := string(cmp.Or(s.Protocol, api.DefaultProtocol)), s.Name+"."+s.Namespace
	if port := strconv.Itoa(int(s.Port)); s.Port != 0 && port != portOf(protocol) {
		host = net.JoinHostPort(host, port)
	}
	return protocol + "://" + host + path
}

func decodingOf(declared api.Decoding) codec.Decoding {
	if cmp.Or(declared, api.DefaultDecoding) == api.DecodingLoose {
		return codec.Loose
	}
	return codec.Strict
}

func readExec(of callOf, e *api.ExecHook) (*hookConfig, error) {
	field := of.field + ".exec"
	if len(e.Command) == 0 || e.Command[0] == "" {
		return nil, invalid("%s.command: must begin with the path of a program", field)
	}
	return &hookConfig{
		field: field, name: of.name, exec: e.Command,
		wire: codec.Wire{Decoding: decodingOf(e.Decoding)}, timeout: cmp.Or(e.Timeout.Duration.Duration, api.DefaultTimeout),
	}, nil
}

func readInline(of callOf, in *api.InlineHook) (*hookConfig, error) {
	field := of.field + ".inline"
	h := &hookConfig{
		field: field, name: of.name, inline: &inlineConfig{function: cmp.Or(in.Function, of.function)},
		wire: codec.Wire{Decoding: decodingOf(in.Decoding)}, timeout: cmp.Or(in.Timeout.Duration.Duration, api.DefaultTimeout),
	}
	from := in.SourceFrom
	switch {
	case h.timeout > api.MaxInlineTimeout:
		return nil, invalid("%s.timeout: must be at most %s, not %s: code without a network computes, and its process is needed by others",
			field, api.MaxInlineTimeout, h.timeout)
	case (in.Source != "") == (from != nil):
		return nil, invalid("%s: exactly one of source and sourceFrom is required", field)
	case from != nil && len(in.Modules) > 0:
		return nil, invalid("%s.modules: requires source; with sourceFrom.configMapKeyRef, the other keys of the ConfigMap are the modules",
			field)
	case from != nil && (from.Hook != "") == (from.ConfigMapKeyRef != nil):
		return nil, invalid("%s.sourceFrom: exactly one of configMapKeyRef and hook is required", field)
	case from != nil && from.Hook != "":
		if in.Language != "" {
			return nil, invalid("%s.language: leave it out; with sourceFrom.hook it is that of the other hook", field)
		}
		h.inline.from = from.Hook
		return h, nil
	}
	c, err := readCode(field, of.name, in)
	h.inline.code = c
	return h, err
}

// extensions are the ends of file names, by language.
var extensions = map[api.ScriptLanguage]string{api.JavaScript: ".js", api.Starlark: ".star"}

// readCode reads the code of an inline hook, or in which ConfigMap it is.
func readCode(field, name string, in *api.InlineHook) (*code, error) {
	extension, known := extensions[in.Language]
	if !known {
		return nil, invalid("%s.language: must be %s or %s, is %q", field, api.JavaScript, api.Starlark, in.Language)
	}
	if from := in.SourceFrom; from != nil {
		ref := from.ConfigMapKeyRef
		c := &code{field: field + ".sourceFrom.configMapKeyRef", language: string(in.Language), entry: ref.Key}
		for _, one := range []struct{ name, value string }{{"namespace", ref.Namespace}, {"name", ref.Name}, {"key", ref.Key}} {
			if one.value == "" {
				return nil, invalid("%s.%s: required", c.field, one.name)
			}
		}
		c.configMap = object.ConfigMaps.Ref(ref.Namespace, ref.Name)
		return c, nil
	}
	c := &code{field: field, language: string(in.Language), entry: name + extension, sources: map[string]string{}}
	for _, module := range slices.Sorted(maps.Keys(in.Modules)) {
		switch {
		case !moduleName.MatchString(module):
			return nil, invalid("%s.modules[%s]: must be a file name of letters, digits, dots, dashes and underscores", field, module)
		case module == c.entry:
			return nil, invalid("%s.modules[%s]: is the name of the source itself; use another one", field, module)
		}
		c.sources[module] = string(in.Modules[module])
	}
	c.sources[c.entry] = string(in.Source)
	err := c.checkSizes(c.sources)
	return c, err
}

// moduleName is what a key of a ConfigMap may be.
var moduleName = regexp.MustCompile(`^[-._a-zA-Z0-9]*[a-zA-Z0-9_-][-._a-zA-Z0-9]*$`)
